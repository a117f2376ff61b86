import { Column, Entity, PrimaryColumn } from 'typeorm';

/** The business record: one for each event, and it counts how often the event was applied. */
@Entity('received_event')
export class ReceivedEvent {
  @PrimaryColumn('text')
  source!: string;

  @PrimaryColumn('text', { name: 'event_id' })
  eventId!: string;

  @Column('text', { name: 'event_type' })
  eventType!: string;

  /** Anything but 1 would mean that an event was handled twice. */
  @Column('integer', { name: 'applied_count', default: 1 })
  appliedCount!: number;
}
