import { typesOf } from './types-of.js';

/** Event types of Square. test/unit/sources/catalogue.spec.ts compares them with Square's own list. */
export const SQUARE_TYPES = /* @__PURE__ */ typesOf(`
  catalog.version.updated device.code.paired device.created dispute.created inventory.count.updated loyalty.event.created
  oauth.authorization.revoked online_checkout.location_settings.updated online_checkout.merchant_settings.updated order.fulfillment.updated
  team_member.wage_setting.updated
  bank_account. created disabled verified
  booking. created updated
  booking.custom_attribute.owned. deleted updated
  booking.custom_attribute.visible. deleted updated
  booking.custom_attribute_definition.owned. created deleted updated
  booking.custom_attribute_definition.visible. created deleted updated
  card. automatically_updated created disabled forgotten updated
  customer. created deleted updated
  customer.custom_attribute. deleted updated
  customer.custom_attribute.owned. deleted updated
  customer.custom_attribute.public. deleted updated
  customer.custom_attribute.visible. deleted updated
  customer.custom_attribute_definition. created deleted updated
  customer.custom_attribute_definition.owned. created deleted updated
  customer.custom_attribute_definition.public. created deleted updated
  customer.custom_attribute_definition.visible. created deleted updated
  dispute.evidence. added created deleted removed
  dispute.state. changed updated
  gift_card.activity. created updated
  gift_card. created customer_linked customer_unlinked updated
  invoice. canceled created deleted payment_made published refunded scheduled_charge_failed updated
  job. created updated
  labor.scheduled_shift. created deleted published updated
  labor.shift. created deleted updated
  labor.timecard. created deleted updated
  location. created updated
  location.custom_attribute.owned. deleted updated
  location.custom_attribute.visible. deleted updated
  location.custom_attribute_definition.owned. created deleted updated
  location.custom_attribute_definition.visible. created deleted updated
  loyalty.account. created deleted updated
  loyalty.program. created updated
  loyalty.promotion. created updated
  merchant.custom_attribute.owned. deleted updated
  merchant.custom_attribute.visible. deleted updated
  merchant.custom_attribute_definition.owned. created deleted updated
  merchant.custom_attribute_definition.visible. created deleted updated
  order. created updated
  order.custom_attribute.owned. deleted updated
  order.custom_attribute.visible. deleted updated
  order.custom_attribute_definition.owned. created deleted updated
  order.custom_attribute_definition.visible. created deleted updated
  payment. created updated
  payout. failed paid sent
  refund. created updated
  subscription. created updated
  team_member. created updated
  terminal.action. created updated
  terminal.checkout. created updated
  terminal.refund. created updated
  transfer_order. created deleted updated
  vendor. created updated`);
