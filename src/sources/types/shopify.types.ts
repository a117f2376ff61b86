import { typesOf } from './types-of.js';

/** Event types of Shopify. test/unit/sources/catalogue.spec.ts compares them with Shopify's own list. */
export const SHOPIFY_TYPES = /* @__PURE__ */ typesOf(`
  app_purchases_one_time/update audit_events/admin_api_activity bulk_operations/finish channels/delete
  checkout_and_accounts_configurations/update customer_account_settings/update customers_email_marketing_consent/update
  customers_marketing_consent/update customers_whats_app_marketing_consent/update delivery_promise_settings/update
  finance_kyc_information/update markets_backup_region/update order_transactions/create payment_schedules/due refunds/create
  reverse_deliveries/attach_deliverable reverse_fulfillment_orders/dispose tender_transactions/create
  app/ scopes_update uninstalled
  app_subscriptions/ approaching_capped_amount update
  carts/ create update
  checkouts/ create delete update
  collection_listings/ add remove update
  collection_publications/ create delete update
  collections/ create delete update
  companies/ create delete update
  company_contact_roles/ assign revoke
  company_contacts/ create delete update
  company_locations/ create delete update
  customer. joined_segment left_segment tags_added tags_removed
  customer_groups/ create delete update
  customer_payment_methods/ create revoke update
  customers/ create data_request delete disable enable merge purchasing_summary redact update
  discounts/ create delete redeemcode_added redeemcode_removed update
  disputes/ create update
  domains/ create destroy update
  draft_orders/ create delete update
  finance_app_staff_member/ delete grant revoke update
  fulfillment_events/ create delete
  fulfillment_holds/ added released
  fulfillment_orders/ cancellation_request_accepted cancellation_request_rejected cancellation_request_submitted cancelled
  fulfillment_orders/ fulfillment_request_accepted fulfillment_request_rejected fulfillment_request_submitted
  fulfillment_orders/ fulfillment_service_failed_to_complete hold_released line_items_prepared_for_local_delivery
  fulfillment_orders/ line_items_prepared_for_pickup manually_reported_progress_stopped merged moved order_routing_complete placed_on_hold
  fulfillment_orders/ progress_reported rescheduled scheduled_fulfillment_order_ready split
  fulfillments/ create update
  inventory_items/ create delete update
  inventory_levels/ connect disconnect update
  inventory_shipments/ add_items create delete mark_in_transit receive_items remove_items update_item_quantities update_tracking
  inventory_transfers/ add_items cancel complete ready_to_ship remove_items update_item_quantities updated
  locales/ create destroy update
  locations/ activate create deactivate delete update
  markets/ create delete update
  metafield_definitions/ create delete update
  metaobjects/ create delete update
  orders/ cancelled create delete edited fulfilled link_requested paid partially_fulfilled risk_assessment_changed
  orders/ shopify_protect_eligibility_changed updated
  payment_terms/ create delete update
  product_feeds/ create full_sync full_sync_finish incremental_sync update
  product_listings/ add remove update
  product_publications/ create delete update
  products/ create delete update
  profiles/ create delete update
  returns/ approve cancel close decline process reopen request update
  scheduled_product_listings/ add remove update
  segments/ create delete update
  selling_plan_groups/ create delete update
  shipping_addresses/ create update
  shop/ redact update
  subscription_billing_attempts/ challenged failure success
  subscription_billing_cycle_edits/ create delete update
  subscription_billing_cycles/ skip unskip
  subscription_contracts/ activate cancel create expire fail pause update
  tax_services/ create update
  themes/ create delete publish update
  variants/ in_stock out_of_stock`);
