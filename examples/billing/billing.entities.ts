import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity('billing_invoice')
export class Invoice {
  /** Stripe's id of the invoice. */
  @PrimaryColumn('text')
  id!: string;

  @Column('text', { nullable: true })
  email!: string | null;

  /** When it was paid first. */
  @Column('timestamptz', { name: 'paid_at' })
  paidAt!: Date;
}

@Entity('billing_subscription')
export class Subscription {
  /** Stripe's id of the subscription. */
  @PrimaryColumn('text')
  id!: string;

  @Column('text')
  status!: string;
}
