import { typesOf } from './types-of.js';

export const CLERK_TYPES = /* @__PURE__ */ typesOf(`
  email.created sms.created
  organization. created deleted updated
  organizationDomain. created deleted updated
  organizationInvitation. accepted created revoked
  organizationMembership. created deleted updated
  paymentAttempt. created updated
  permission. created deleted updated
  role. created deleted updated
  session. created ended removed revoked
  subscription. active created pastDue updated
  subscriptionItem. abandoned active canceled created ended freeTrialEnding incomplete pastDue upcoming updated
  user. created deleted updated
  waitlistEntry. created updated`);

export const GITHUB_TYPES = /* @__PURE__ */ typesOf(`
  branch_protection_configuration branch_protection_rule check_run check_suite code_scanning_alert commit_comment create custom_property
  custom_property_promoted_to_enterprise custom_property_values delete dependabot_alert deploy_key deployment deployment_protection_rule
  deployment_review deployment_status discussion discussion_comment fork github_app_authorization gollum installation
  installation_repositories installation_target issue_comment issue_dependencies issues label marketplace_purchase member membership
  merge_group meta milestone org_block organization package page_build personal_access_token_request ping project project_card
  project_column projects_v2 projects_v2_item projects_v2_status_update public pull_request pull_request_review
  pull_request_review_comment pull_request_review_thread push registry_package release repository repository_advisory repository_dispatch
  repository_import repository_ruleset repository_vulnerability_alert secret_scanning_alert secret_scanning_alert_location
  secret_scanning_scan security_advisory security_and_analysis sponsorship star status sub_issues team team_add watch workflow_dispatch
  workflow_job workflow_run`);

export const MUX_TYPES = /* @__PURE__ */ typesOf(`
  video.delivery.high_traffic
  robots.directive_run. completed created errored partial
  robots.job.ask_questions. cancelled completed errored pending processing
  robots.job.edit_captions. cancelled completed errored pending processing
  robots.job.find_best_thumbnails. cancelled completed errored pending processing
  robots.job.find_key_moments. cancelled completed errored pending processing
  robots.job.find_scenes. cancelled completed errored pending processing
  robots.job.generate_chapters. cancelled completed errored pending processing
  robots.job.generate_engagement_insights. cancelled completed errored pending processing
  robots.job.generate_premium_captions. cancelled completed errored pending processing
  robots.job.moderate. cancelled completed errored pending processing
  robots.job.summarize. cancelled completed errored pending processing
  robots.job.translate_audio. cancelled completed errored pending processing
  robots.job.translate_captions. cancelled completed errored pending processing
  video.asset. created deleted errored live_stream_completed non_standard_input_detected ready updated warning
  video.asset.master. deleted errored preparing ready
  video.asset.shots. created deleted errored ready skipped
  video.asset.static_rendition. created deleted errored ready skipped
  video.asset.static_renditions. deleted errored preparing ready
  video.asset.track. created deleted errored ready
  video.live_stream. active connected created deleted disabled disconnected enabled idle recording updated warning
  video.live_stream.simulcast_target. broadcasting created deleted errored idle starting updated
  video.upload. asset_created cancelled created errored`);

export const OPENAI_TYPES = /* @__PURE__ */ typesOf(`
  realtime.call.incoming
  batch. cancelled completed expired failed
  eval.run. canceled failed succeeded
  fine_tuning.job. cancelled failed succeeded
  response. cancelled completed failed incomplete`);

export const WORKOS_TYPES = /* @__PURE__ */ typesOf(`
  email_verification.created magic_auth.created vault.byok_key.verification_completed vault.kek.created vault.metadata.read
  vault.names.listed
  api_key. created revoked
  authentication. email_verification_succeeded magic_auth_failed magic_auth_succeeded mfa_succeeded oauth_failed oauth_succeeded
  authentication. passkey_failed passkey_succeeded password_failed password_succeeded radar_risk_detected sso_failed sso_succeeded
  connection. activated deactivated deleted
  dsync. activated deleted
  dsync.group. created deleted updated user_added user_removed
  dsync.user. created deleted updated
  flag. created deleted rule_updated updated
  invitation. accepted created resent revoked
  organization. created deleted updated
  organization_domain. created deleted updated verification_failed verified
  organization_membership. created deleted updated
  organization_role. created deleted updated
  password_reset. created succeeded
  permission. created deleted updated
  role. created deleted updated
  session. created revoked
  user. created deleted updated
  vault.data. created deleted read updated
  vault.dek. decrypted read`);
