/**
 * Entry of the process that tries a device: takes one question, sends one answer, ends. If the device crashes the
 * process, that is the answer.
 */
import { answerProcess } from '#base/processes/ask-process.js'
import type { DeviceProof } from '#contract/processes/device-proof.js'
import { prove } from './prove.js'
import type { DeviceQuestion } from './prove-device.js'

void answerProcess<DeviceQuestion, DeviceProof>('proof_failed', async ({ device }, { progress, answer }) => {
  await answer(await prove(device, progress))
})
