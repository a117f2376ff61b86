import { randomUUID } from 'node:crypto';
import { Injectable } from '@nestjs/common';

/** This instance of the application. Leases, notifications and heartbeats carry its id. */
@Injectable()
export class Instance {
  /** New at each start: a restarted process is not taken for the former one. */
  readonly id: string = randomUUID();
}
