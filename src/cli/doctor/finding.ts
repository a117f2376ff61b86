import type { INestApplicationContext } from '@nestjs/common';
import type { DataSource, EntityManager } from 'typeorm';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';

/** `error`: something does not work. `warning`: something will go wrong, or costs much. `hint`: worth knowing. */
export type Level = 'error' | 'warning' | 'hint';

export interface Finding {
  readonly level: Level;
  /** The finding, in a sentence. */
  readonly text: string;
  readonly remedy: string;
}

export interface Found extends Finding {
  /** Name of the check. */
  readonly check: string;
}

/** The parts that the checks examine. */
export interface Patient {
  /** With its HTTP server, not listening; an application context where no adapter is installed. */
  readonly app: INestApplicationContext;
  readonly dataSource: DataSource;
  readonly options: ResolvedOptions;
  /** Bounded reads. */
  readonly read: <T>(work: (manager: EntityManager) => Promise<T>) => Promise<T>;
}

export interface Check {
  /** As the table of docs/command-line.md names it. */
  readonly name: string;
  run(patient: Patient): Promise<Finding[]>;
}

export const error = (text: string, remedy: string): Finding => ({ level: 'error', text, remedy });
export const warning = (text: string, remedy: string): Finding => ({ level: 'warning', text, remedy });
export const hint = (text: string, remedy: string): Finding => ({ level: 'hint', text, remedy });
