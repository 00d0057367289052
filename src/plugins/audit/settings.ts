/**
 * Settings of the audit log.
 */
import { defineSettings } from '#contract/settings/setting.js'

const DAY_MS = 86_400_000

export const auditSettings = defineSettings({
  /** `database`, `-` or the path of a file; the database has it in each case. */
  audit: {
    key: 'audit',
    type: 'text',
    default: null,
    whenAbsent: 'nothing is kept',
    after: 'webhook-hosts',
    summary: 'keep who changed or fetched what: in the "database", and as JSON lines in a file too (- is stdout)',
  },
  auditKeepMs: {
    key: 'audit-keep',
    type: 'duration',
    default: null,
    bounds: { min: DAY_MS, max: 36_500 * DAY_MS },
    whenAbsent: 'for ever',
    after: 'audit',
    summary: 'how long the audit log keeps a line in the database',
  },
})
