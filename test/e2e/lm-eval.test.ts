/**
 * lm-evaluation-harness, unchanged, scores the service: the tokenizer over HTTP, log-likelihoods as transformers has them on the
 * same weights (`test/goldens/loglikelihoods.json`), and generated answers.
 */
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { runClient } from '../support/clients/run-client.js'
import { startService } from '../support/service/service-process.js'

const LM_EVAL = path.resolve(import.meta.dirname, '../../.cache/lm-eval-venv/bin/lm_eval')
const GOLDENS = path.resolve(import.meta.dirname, '../goldens/loglikelihoods.json')

interface Case {
  readonly context: string
  readonly continuation: string
  readonly loglikelihood: number
  readonly is_greedy: boolean
}

/** A task of the harness's own format, over rows of a file. */
async function writeTask(directory: string, name: string, rows: readonly object[], lines: readonly string[]) {
  const data = path.join(directory, `${name}.jsonl`)
  await writeFile(data, rows.map((row) => JSON.stringify(row)).join('\n'))
  const head = [`task: ${name}`, 'dataset_path: json', `dataset_kwargs: {data_files: {test: ${JSON.stringify(data)}}}`]
  await writeFile(path.join(directory, `${name}.yaml`), [...head, 'test_split: test', ...lines, ''].join('\n'))
}

async function samplesOf<T>(directory: string, task: string): Promise<T[]> {
  const files = await readdir(directory, { recursive: true })
  const file = files.find((each) => path.basename(each).startsWith(`samples_${task}_`))
  const text = await readFile(path.join(directory, file ?? ''), 'utf8')
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T)
}

test.skipIf(!existsSync(LM_EVAL))(
  'lm-eval scores as transformers does (skipped without .cache/lm-eval-venv, see .ci/run)',
  { timeout: 1_000_000 },
  async () => {
    const { cases } = JSON.parse(await readFile(GOLDENS, 'utf8')) as { cases: Case[] }
    const directory = await mkdtemp(path.join(tmpdir(), 'lm-eval-'))
    const service = await startService()
    try {
      const tasks = path.join(directory, 'tasks')
      await mkdir(tasks)
      const rows = cases.map(({ context, continuation }, index) => ({ context, continuation, index }))
      await writeTask(tasks, 'continuations', rows, [
        'output_type: loglikelihood',
        'doc_to_text: "{{context}}"',
        'doc_to_target: "{{continuation}}"',
        'target_delimiter: ""',
        'metric_list: [{metric: acc}, {metric: perplexity}]',
      ])
      await writeTask(
        tasks,
        'says_yes',
        [{ prompt: `${cases.find(({ continuation }) => continuation === '\nyes')?.context}\n` }],
        [
          'output_type: generate_until',
          'doc_to_text: "{{prompt}}"',
          'doc_to_target: "yes"',
          'generation_kwargs: {until: ["<|im_end|>", "."], max_gen_toks: 8}',
          'metric_list: [{metric: exact_match, ignore_case: true, ignore_punctuation: true}]',
        ],
      )
      const modelArgs = [
        'model=trainyard/spark',
        `base_url=${service.url}/v1/completions`,
        `auth_token=${service.key}`,
        'max_length=1024',
        'num_concurrent=2',
      ]
      const out = path.join(directory, 'out')
      const args = ['--model', 'local-completions', '--model_args', modelArgs.join(','), '--batch_size', '4']
      await runClient(
        LM_EVAL,
        [...args, '--tasks', 'continuations,says_yes', '--include_path', tasks, '--output_path', out, '--log_samples'],
        {
          timeoutMs: 950_000,
          hasOwnEnvironment: true,
          env: {
            PATH: process.env['PATH'] ?? '',
            HOME: directory,
            HF_HOME: path.join(directory, 'hf'),
            HF_HUB_OFFLINE: '1',
            HF_DATASETS_OFFLINE: '1',
            OPENAI_API_KEY: service.key,
          },
        },
      )
      const scored = await samplesOf<{ doc: { index: number }; resps: [[[string | number, string | boolean]]] }>(
        out,
        'continuations',
      )
      expect(scored).toHaveLength(cases.length)
      for (const { doc, resps } of scored) {
        const expected = cases[doc.index]
        const [loglikelihood, isGreedy] = resps[0][0]
        // float32 on both sides, other orders of addition; the sum of up to 16 terms
        expect(Math.abs(Number(loglikelihood) - (expected?.loglikelihood ?? 1e9)), expected?.continuation).toBeLessThan(
          2e-3,
        )
        expect(String(isGreedy).toLowerCase()).toBe(String(expected?.is_greedy))
      }
      const [generated] = await samplesOf<{ exact_match: number; resps: [[string]] }>(out, 'says_yes')
      expect(generated?.exact_match, JSON.stringify(generated?.resps)).toBe(1)
    } finally {
      await service.stop()
      await rm(directory, { recursive: true, force: true, maxRetries: 20 })
    }
  },
)
