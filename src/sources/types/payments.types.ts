import { typesOf } from './types-of.js';

export const ADYEN_TYPES = /* @__PURE__ */ typesOf(`
  AUTHORISATION AUTHORISATION_ADJUSTMENT AUTORESCUE CANCELLATION CANCEL_AUTORESCUE CANCEL_OR_REFUND CAPTURE CAPTURE_FAILED CHARGEBACK
  CHARGEBACK_REVERSED DISPUTE_DEFENSE_PERIOD_ENDED DONATION EXPIRE HANDLED_EXTERNALLY INFORMATION_SUPPLIED ISSUER_COMMENTS
  ISSUER_RESPONSE_TIMEFRAME_EXPIRED MANUAL_REVIEW_ACCEPT MANUAL_REVIEW_REJECT NOTIFICATION_OF_CHARGEBACK NOTIFICATION_OF_FRAUD
  OFFER_CLOSED ORDER_CLOSED ORDER_OPENED PAIDOUT_REVERSED PAYOUT_DECLINE PAYOUT_EXPIRE PAYOUT_THIRDPARTY PENDING POSTPONED_REFUND
  PREARBITRATION_LOST PREARBITRATION_WON PROCESS_RETRY RECURRING_CONTRACT REFUND REFUNDED_REVERSED REFUND_FAILED REFUND_WITH_DATA
  REPORT_AVAILABLE REQUEST_FOR_INFORMATION SECOND_CHARGEBACK TECHNICAL_CANCEL VOID_PENDING_REFUND`);

export const LEMON_SQUEEZY_TYPES = /* @__PURE__ */ typesOf(`
  affiliate_activated license_key_created license_key_updated order_created order_refunded subscription_cancelled subscription_created
  subscription_expired subscription_paused subscription_payment_failed subscription_payment_recovered subscription_payment_refunded
  subscription_payment_success subscription_resumed subscription_unpaused subscription_updated`);

export const PADDLE_TYPES = /* @__PURE__ */ typesOf(`
  api_key_exposure.created
  address. created imported updated
  adjustment. created updated
  api_key. created expired expiring revoked updated
  business. created imported updated
  client_token. created revoked updated
  customer. created imported updated
  discount. created imported updated
  discount_group. created updated
  payment_method. deleted saved
  payout. created paid
  price. created imported updated
  product. created imported updated
  report. created updated
  subscription. activated canceled created imported past_due paused resumed trialing updated
  transaction. billed canceled completed created paid past_due payment_failed ready revised updated`);

export const POLAR_TYPES = /* @__PURE__ */ typesOf(`
  organization.updated
  benefit. created updated
  benefit_grant. created cycled revoked updated
  checkout. created expired updated
  customer. created deleted state_changed updated
  customer_seat. assigned claimed revoked
  member. created deleted updated
  order. created paid refunded updated
  product. created updated
  refund. created updated
  subscription. active canceled created past_due paused resumed revoked uncanceled updated`);

export const WOOCOMMERCE_TYPES = /* @__PURE__ */ typesOf(`
  coupon. created deleted restored updated
  customer. created deleted restored updated
  order. created deleted restored updated
  product. created deleted restored updated`);
