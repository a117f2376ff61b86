import { Column, Entity, PrimaryColumn, type MigrationInterface, type QueryRunner } from 'typeorm';

/** A shop that has installed the app. */
@Entity('shop')
export class Shop {
  /** Such as 'ann.myshopify.com'. It is the tenant. */
  @PrimaryColumn('text')
  domain!: string;

  /** Signs the shop's webhooks. */
  @Column('text')
  secret!: string;
}

/** An order of a shop: two shops may have orders of the same number. */
@Entity('shop_order')
export class ShopOrder {
  @PrimaryColumn('text')
  shop!: string;

  @PrimaryColumn('bigint')
  id!: string;

  @Column('text', { name: 'total_price' })
  totalPrice!: string;
}

export class Shops1796000005000 implements MigrationInterface {
  readonly name = 'Shops1796000005000';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`CREATE TABLE shop (domain text PRIMARY KEY, secret text NOT NULL)`);
    await runner.query(
      `CREATE TABLE shop_order (shop text REFERENCES shop, id bigint, total_price text NOT NULL, PRIMARY KEY (shop, id))`,
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP TABLE shop_order, shop`);
  }
}
