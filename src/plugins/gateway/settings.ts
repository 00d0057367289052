/**
 * Settings of the gateway.
 */
import { defineSettings } from '#contract/settings/setting.js'

export const gatewaySettings = defineSettings({
  /**
   * Hosts (`name` or `name:port`) that routes may lead to although they are in a private network or speak plain http. Default
   * none.
   */
  gatewayHosts: {
    key: 'gateway-hosts',
    type: 'list',
    default: [],
    flag: '--gateway-host <host>',
    after: 'webhook-hosts',
    summary: 'host routes of the gateway may lead to although it is private or plain http',
  },
  /**
   * Variables of the server's environment that hold keys of upstreams, each with the origin that it may be sent to. Default
   * none.
   */
  gatewayKeys: {
    key: 'gateway-keys',
    type: 'list',
    default: [],
    flag: '--gateway-key <variable=origin>',
    after: 'gateway-hosts',
    summary: 'variable with an upstream key that routes may use, and the origin it may be sent to',
  },
})
