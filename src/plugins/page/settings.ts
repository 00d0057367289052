/**
 * Settings of the page.
 */
import { defineSettings } from '#contract/settings/setting.js'

export const pageSettings = defineSettings({
  /** Whether browsers are shown the page below `/ui`. Default true. */
  ui: {
    key: 'ui',
    type: 'boolean',
    default: true,
    flag: '--no-ui',
    after: 'allowed-origins',
    summary: 'leave out the page for browsers below /ui',
  },
})
