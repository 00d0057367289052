/**
 * Gradients by PyTorch, in a Python process beside the training worker.
 */
import { definePlugin } from '#service/define-plugin.js'

export const torch = definePlugin({
  name: 'torch',
  trainers: [{ name: 'torch', module: 'plugins/torch/torch-backend.js' }],
})
