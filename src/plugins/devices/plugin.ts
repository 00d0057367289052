/**
 * Accelerators: tried in a process of their own before a server computes on one, and what a machine lacks for them.
 */
import { definePlugin } from '#service/define-plugin.js'

export const devices = definePlugin({
  name: 'devices',
  processes: ['plugins/devices/main.js'],
  accelerators: (['cuda', 'webgpu'] as const).map((name) => ({
    name,
    prove: async (environment) => (await import('./prove-device.js')).proveDevice(name, environment),
  })),
  commands: {
    after: 'system-check',
    rows: [
      {
        path: 'devices',
        summary: 'List what this machine can compute on',
        isHidden: true,
        load: async () => (await import('./command.js')).devices,
      },
    ],
  },
})
