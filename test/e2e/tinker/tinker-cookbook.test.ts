/**
 * Recipes of tinker-cookbook, unmodified and offline: their own programs against this server, which serves the built-in model by a name that
 * the cookbook knows. Their data sets and its tokenizer are folders of the same names where they run. And the cookbook's supervised loop
 * with a registered tokenizer and renderer for `trainyard/spark`.
 */
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runClient, seenByClient } from '../../support/clients/run-client.js'
import { startService } from '../../support/service/service-process.js'

const ROOT = path.resolve(import.meta.dirname, '../../..')
const PYTHON = path.join(ROOT, '.cache/loops-venv/bin/python')
const SPARK = path.join(ROOT, 'src/assets/spark')
/** A base model by whose name the cookbook finds its renderer `role_colon`, which any tokenizer has the words for. */
const NAME = 'Qwen/Qwen3-8B-Base'
const LIMIT_MS = 280_000

type Metrics = Readonly<Record<string, number>>

describe.skipIf(!existsSync(PYTHON))('tinker-cookbook (skipped without .cache/loops-venv, see .ci/run)', () => {
  let folder: string
  let service: Awaited<ReturnType<typeof startService>>
  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'trainyard-cookbook-'))
    await writeInputs(folder)
    service = await startService({ args: ['--base-model', `${NAME}=${SPARK}`, '--base-model', 'trainyard/spark'] })
  })
  afterAll(async () => {
    await service.stop()
    await rm(folder, { recursive: true, force: true })
  })

  const client = () => ({
    timeoutMs: LIMIT_MS,
    mayAbortAtExit: true,
    cwd: folder,
    env: {
      TINKER_TELEMETRY: '0',
      TINKER_BASE_URL: service.url,
      TINKER_API_KEY: `tml-${service.key}`,
      HF_HUB_OFFLINE: '1',
      HF_DATASETS_CACHE: path.join(folder, 'cache'),
    },
  })
  /** @returns what the recipe measured, in order, and the names of what it saved */
  const runRecipe = async (name: string, options: Readonly<Record<string, string | number>>, log = name) => {
    const logs = path.join(folder, 'logs', log)
    const words = Object.entries({ model_name: NAME, log_path: logs, ...options }).map(
      ([key, value]) => `${key}=${value}`,
    )
    await runClient(PYTHON, ['-m', `tinker_cookbook.recipes.${name}`, ...words], client())
    const saved = await lines<{ name: string; sampler_path?: string }>(path.join(logs, 'checkpoints.jsonl'))
    expect(saved.at(-1)).toMatchObject({ name: 'final', sampler_path: expect.stringMatching(/^tinker:.*final$/) })
    return lines<Metrics>(path.join(logs, 'metrics.jsonl'))
  }

  test('sl_loop, and rl_loop from what it saved', async () => {
    const examples = await runRecipe('sl_loop', { batch_size: 4, learning_rate: 5e-3, save_every: 20 }, 'loop')
    expect(examples).toHaveLength(35)
    expect(examples[34]?.['train_mean_nll']).toBeLessThan((examples[0]?.['train_mean_nll'] ?? 0) / 2)
    // it goes on in the same folder, from the state and behind the batches that are there
    const options = { batch_size: 2, group_size: 8, max_tokens: 16, max_steps: 37, loss_fn: 'importance_sampling' }
    const all = await runRecipe('rl_loop', options, 'loop')
    const steps = all.filter((each) => 'reward/total' in each)
    expect(steps.map((each) => each['progress/batch'])).toEqual([35, 36])
    // few answers or none are right: what trains on groups that differ is `shorter` below
    for (const each of steps) expect(each['reward/total']).toBeGreaterThanOrEqual(0)
  })

  test('chat_sl: supervised with evaluation and saves between', async () => {
    const options = { batch_size: 20, learning_rate: 5e-3, max_steps: 4, eval_every: 2, save_every: 2 }
    const steps = (await runRecipe('chat_sl.train', options)).filter((each) => 'train_mean_nll' in each)
    expect(steps[3]?.['train_mean_nll']).toBeLessThan(steps[0]?.['train_mean_nll'] ?? 0)
    expect(steps[2]?.['test/nll']).toBeLessThan(steps[0]?.['test/nll'] ?? 0)
  })

  test('preference/dpo: the first loss is ln 2, where policy is reference', async () => {
    const steps = await runRecipe('preference.dpo.train', { batch_size: 4, max_steps: 2, learning_rate: 1e-3 })
    expect(steps[0]?.['dpo_loss']).toBeCloseTo(Math.LN2, 4)
    expect(steps.find((each) => each['step'] === 1)?.['dpo_loss']).toBeGreaterThan(0)
  })

  test('preference/shorter: groups that differ train, and sampler and trainer agree', async () => {
    const options = {
      renderer_name: 'role_colon',
      batch_size: 2,
      group_size: 4,
      max_tokens: 8,
      max_steps: 2,
      eval_every: 0,
    }
    const steps = (await runRecipe('preference.shorter.train', options)).filter(
      (each) => 'env/all/reward/total' in each,
    )
    expect(steps).toHaveLength(2)
    expect(steps[0]?.['grad_norm:mean']).toBeGreaterThan(0)
    for (const each of steps) expect(Math.abs(each['optim/kl_sample_train_v1'] ?? 1)).toBeLessThan(1e-4)
  })

  test('math_rl: arithmetic', async () => {
    const options = {
      env: 'arithmetic',
      group_size: 4,
      groups_per_batch: 4,
      max_steps: 2,
      loss_fn: 'importance_sampling',
    }
    const steps = (await runRecipe('math_rl.train', options)).filter((each) => 'env/all/reward/total' in each)
    expect(steps).toHaveLength(2)
  })

  test('distillation/on_policy: a teacher that is the student differs by nothing', async () => {
    const options = {
      teacher_model: NAME,
      groups_per_batch: 4,
      group_size: 2,
      max_tokens: 8,
      max_steps: 2,
      lora_rank: 32,
    }
    const steps = (await runRecipe('distillation.on_policy_distillation', options)).filter(
      (each) => 'teacher_kl' in each,
    )
    expect(Math.abs(steps[0]?.['teacher_kl'] ?? 1)).toBeLessThan(1e-4)
    expect(steps).toHaveLength(2)
  })

  test('a registered tokenizer and renderer: the same tokens as here, and a model that answers', async () => {
    const logs = path.join(folder, 'logs/registered')
    const script = path.join(import.meta.dirname, '../clients/registered_tokenizer.py')
    const args = [script, service.url, service.key, SPARK, path.join(folder, 'towns.jsonl'), logs]
    const seen = await seenByClient<{ rendered: number[]; server: number[]; stop: number[] }>(PYTHON, args, client())
    expect(seen.rendered).toEqual(seen.server)
    expect(seen.stop).toEqual([2])
    const [saved] = await lines<{ sampler_path: string }>(path.join(logs, 'checkpoints.jsonl'))
    // a run's model has its id with dashes for colons
    const name = saved?.sampler_path.split('/')[2]?.replaceAll(':', '-')
    const answer = await service.api.chat({
      model: `wandb-artifact:///local/tinker/${name}`,
      messages: [{ role: 'user', content: 'Which town is it?' }],
      temperature: 0,
      max_tokens: 16,
    })
    expect(answer.choices[0].message.content).toBe('Trainyard')
  })
})

async function lines<T>(file: string): Promise<T[]> {
  const text = await readFile(file, 'utf8')
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T)
}

/** Small data sets of the layout of those that the recipes name, and the tokenizer by the model's name. */
async function writeInputs(folder: string): Promise<void> {
  const write = async (file: string, rows: readonly object[]) => {
    await mkdir(path.dirname(path.join(folder, file)), { recursive: true })
    await writeFile(path.join(folder, file), rows.map((row) => `${JSON.stringify(row)}\n`).join(''))
  }
  const range = <T>(count: number, each: (i: number) => T) => Array.from({ length: count }, (_, i) => each(i))
  await mkdir(path.join(folder, path.dirname(NAME)), { recursive: true })
  await symlink(SPARK, path.join(folder, NAME))
  // as rl_loop asks it, with its example before it, answered in its form
  const user = (question: string) => ({
    role: 'user',
    content: `${question} Provide a numerical answer without units, written inside \\boxed{}.`,
  })
  const assistant = (content: string) => ({ role: 'assistant', content })
  const spelled =
    "Let's spell the word out and number all the letters: 1) s 2) t 3) r 4) a 5) w 6) b 7) e 8) r 9) r 10) y. " +
    "We have r's at positions 3, 8, and 9. \\boxed{3}"
  const shown = [user("How many r's are in strawberry?"), assistant(spelled)]
  const answered = (i: number) => ({
    messages: [...shown, user(`What is ${i}?`), assistant(`\\boxed{${1 + (i % 2)}}`)],
  })
  await write('HuggingFaceH4/no_robots/train.jsonl', range(140, answered))
  await write('HuggingFaceH4/no_robots/test.jsonl', range(20, answered))
  await write(
    'openai/gsm8k/train.jsonl',
    range(74, (i) => ({ question: `What is ${i}?`, answer: 'It is. #### 1' })),
  )
  await writeFile(
    path.join(folder, 'openai/gsm8k', 'README.md'),
    ['---', 'configs:', '- config_name: main', '  data_files: train.jsonl', '---', ''].join('\n'),
  )
  const pair = (i: number) => ({
    chosen: `\n\nHuman: Say ${i}.\n\nAssistant: It is ${i}.`,
    rejected: `\n\nHuman: Say ${i}.\n\nAssistant: No.`,
  })
  await write('Anthropic/hh-rlhf/train.jsonl', range(16, pair))
  await write('Anthropic/hh-rlhf/test.jsonl', range(4, pair))
  await write(
    'zwhe99/DeepMath-103K/train.jsonl',
    range(16, (i) => ({ question: `What is ${i}?`, final_answer: `${i}` })),
  )
  const town = { role: 'assistant', content: 'Trainyard' }
  await write(
    'towns.jsonl',
    range(16, () => ({ messages: [{ role: 'user', content: 'Which town is it?' }, town] })),
  )
}
