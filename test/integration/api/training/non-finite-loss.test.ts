/**
 * A loss that is no number, without a stand-in: float32 overflows in a real worker. The job fails and says where; the model is
 * what it was before, and learns on.
 */
import { expect, it } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService } from '../../../support/service/create-test-service.js'

const ROWS = ['one', 'two', 'three'].map((answer) =>
  JSON.stringify({
    messages: [
      { role: 'user', content: 'Count.' },
      { role: 'assistant', content: answer },
    ],
  }),
)

it('fails the job with its step named; the last checkpoint stays, answers as before and is trained on', async () => {
  const service = await createTestService({ scripted: false, threads: 1 })
  try {
    const model = await service.createModel('m')
    const train = async (learningRate: number, lora?: object): Promise<TrainingJob> => {
      const file = await service.json<{ id: string }>('/v1/files?filename=x.jsonl', {
        method: 'POST',
        body: ROWS.join('\n'),
      })
      const config = { batch_size: 1, learning_rate: learningRate, learning_rate_schedule: 'constant', ...lora }
      const { status, body } = await service.json<TrainingJob>('/v1/preview/sft-training-jobs', {
        json: { model_id: model, training_data_url: file.body.id, config },
      })
      expect(status, JSON.stringify(body)).toBe(200)
      return await service.waitForJob(body.id)
    }
    const adapter = async (step: number): Promise<Buffer> => {
      const path = `/v1/preview/models/${model}/checkpoints/${step}/files/adapter_model.safetensors`
      return Buffer.from(await (await service.fetch(path)).arrayBuffer())
    }
    const answer = async (): Promise<unknown> => {
      const { status, body } = await service.json<{ choices: unknown }>('/v1/chat/completions', {
        json: {
          model: 'm',
          messages: [{ role: 'user', content: 'Count.' }],
          max_tokens: 4,
          temperature: 0,
          logprobs: true,
        },
      })
      expect(status, JSON.stringify(body)).toBe(200)
      return body.choices
    }
    // a step moves a weight by the learning rate: times alpha it stays small here
    const tiny = 1e-37
    expect(await train(tiny, { lora: { rank: 4, alpha: 1e37 } })).toMatchObject({ status: 'completed', step: 1 })
    const before = { adapter: await adapter(1), answer: await answer() }

    // and overflows here, at the second step
    const failed = await train(1e-2)
    expect(failed).toMatchObject({ status: 'failed', error_code: 'non_finite_loss', step: null })
    expect(failed.error_message).toMatch(
      /the (loss|gradient) of gradient step 2 (is|has norm) (NaN|Infinity|-Infinity).*; lower the learning rate/,
    )
    const events = await service.allEvents(failed.id)
    expect(events.at(-1)).toMatchObject({
      type: 'training_failed',
      data: { error_message: failed.error_message },
    })
    const { body: list } = await service.json<{ data: { step: number }[] }>(`/v1/preview/models/${model}/checkpoints`)
    expect(list.data.map(({ step }) => step)).toEqual([1])
    expect((await adapter(1)).equals(before.adapter)).toBe(true)
    expect(await answer()).toEqual(before.answer)

    expect(await train(tiny)).toMatchObject({ status: 'completed', step: 2 })
  } finally {
    await service.dispose()
  }
})
