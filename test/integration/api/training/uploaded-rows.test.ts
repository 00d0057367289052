/**
 * Rows of an uploaded file are looked at before a job is asked for: the file is kept, and its record says what the job would say.
 */
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { FileObject } from '#contract/wire/files.js'
import { createTestService, type TestService } from '../../../support/service/create-test-service.js'

let service: TestService
let modelId: string
beforeAll(async () => {
  service = await createTestService()
  modelId = await service.createModel('taught')
})
afterAll(() => service.dispose())

const turn = { messages: ['user', 'assistant'].map((role) => ({ role, content: role })) }
const pair = { prompt: 'q', chosen: 'a', rejected: 'b' }
const lines = (...rows: readonly unknown[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join('')

async function upload(content: string | Uint8Array<ArrayBuffer>, purpose = 'fine-tune'): Promise<FileObject> {
  const form = new FormData()
  form.set('purpose', purpose)
  form.set('file', new Blob([content]), 'rows.jsonl')
  const { status, body } = await service.json<FileObject>('/v1/files', { method: 'POST', body: form })
  expect(status).toBe(200)
  return body
}

const wrong: readonly (readonly [name: string, content: string, kind: 'sft' | 'dpo', says: string])[] = [
  [
    'a ShareGPT row',
    lines({
      conversations: [
        { from: 'human', value: 'What is tea?' },
        { from: 'gpt', value: 'A drink.' },
      ],
    }),
    'sft',
    'Line 1 is a ShareGPT row',
  ],
  ['an Alpaca row', lines({ instruction: 'Add.', input: '1+1', output: '2' }), 'sft', 'Line 1 is an Alpaca row'],
  ['a JSON array', JSON.stringify([turn, turn], null, 2), 'sft', 'The file is one JSON array'],
  ['a KTO row', lines({ ...turn, label: false }), 'sft', 'Line 1 is a KTO row'],
  [
    'a key that stands twice',
    `${lines(turn)}{"messages": [], "messages": []}\n`,
    'sft',
    'Line 2 has the key "messages" twice',
  ],
  ['a pair without a prompt', lines(pair, { chosen: 'a', rejected: 'b' }), 'dpo', 'Line 2 '],
  ['equal answers', lines(pair, { ...pair, rejected: 'a' }), 'dpo', 'Line 2 has equal answers'],
  ['labels as tables write them', lines({ ...turn, label: 'False' }), 'sft', 'Line 1 is a KTO row'],
  [
    'a Git LFS pointer',
    'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n',
    'sft',
    'The file is a Git LFS pointer',
  ],
  ['a web page', '<!doctype html>\n<p>Sign in</p>', 'dpo', 'The file is a web page'],
  ['a table', 'prompt,completion\nq,a\n', 'sft', 'The file is a table (CSV)'],
  [
    'NaN in a last line without a line feed',
    `${lines(turn)}{"score": NaN}`,
    'sft',
    'Line 2 is not valid JSON; column 11: NaN is no number of JSON',
  ],
  ['a last line that is cut off', lines(turn, turn).slice(0, -9), 'sft', 'Line 2 is the last one and ends inside'],
  ['nothing', '', 'sft', 'The training data has no example'],
]

test.each(wrong)('%s', async (_name, content, kind, says) => {
  const file = await upload(content)
  expect(file.status).toBe('error')
  expect(file.status_details).toContain(says)
  const kept = await service.json<FileObject>(`/v1/files/${file.id}`)
  expect(kept.body).toEqual(file)
  const job = await service.json<{ error: { message: string; hint: string | null } }>(
    `/v1/preview/${kind}-training-jobs`,
    {
      json: { model_id: modelId, training_data_url: file.id },
    },
  )
  expect(job.status).toBe(400)
  const { message, hint } = job.body.error
  expect(file.status_details).toBe(hint === null ? message : `${message.replace(/\.$/, '')}; ${hint}`)
})

test.each<readonly [string, string | Uint8Array<ArrayBuffer>, string]>([
  ['conversations', lines(turn, turn), 'fine-tune'],
  ['preferences', lines(pair), 'fine-tune'],
  ['answers with labels', lines({ prompt: 'q', completion: 'a', label: 1 }), 'fine-tune'],
  ['conversations as gzip', new Uint8Array(gzipSync(lines(turn))), 'fine-tune'],
  ['what is for something else', 'no rows', 'user_data'],
])('nothing is said of %s', async (_name, content, purpose) => {
  expect(await upload(content, purpose)).toMatchObject({ status: 'processed', status_details: null })
})

test('what is damaged inside of gzip is told', async () => {
  const rows = gzipSync(lines(...Array.from({ length: 50 }, (_, i) => ({ ...turn, i: `${i * 7919}` }))))
  const file = await upload(new Uint8Array(rows.subarray(0, rows.length - 20)))
  expect(file).toMatchObject({ status: 'error' })
  expect(file.status_details).toContain('begins like a gzip file but cannot be decompressed')
})
