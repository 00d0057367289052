/**
 * Workers on a Ray cluster, as many as have something to do.
 */
import { definePlugin } from '#service/define-plugin.js'

export const ray = definePlugin({
  name: 'ray',
  workerSupplies: [
    {
      protocol: 'ray:',
      place: "Ray's dashboard",
      example: 'ray://head:8265?server=https://this-server&key-file=/etc/trainyard/worker.key&max=8&gpus=1',
      open: async (core) => (await import('./start.js')).openRaySupply(core),
    },
  ],
})
