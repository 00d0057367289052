/**
 * A complete command line of every command, for tests of what all of them owe their users. Knows no answers: who runs them brings a server.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { JOB } from './service/scripted-service.js'

const folder = mkdtempSync(join(tmpdir(), 'trainyard-contract-'))
const groups = join(folder, 'groups.jsonl')
const rows = join(folder, 'rows.jsonl')
const pairs = join(folder, 'pairs.jsonl')
const prompts = join(folder, 'prompts.jsonl')
const own = join(folder, 'own.mjs')
const run = join(folder, 'run')
const grader = join(folder, 'grader.json')
const choice = { index: 0, finish_reason: 'stop', message: { role: 'assistant', content: 'a' }, token_ids: [1] }
const trajectories = [0, 1].map((reward) => ({ messages_and_choices: [choice], reward }))

/** A complete command line of every command; a new command must be added here to pass. */
export const completeLines: Readonly<Record<string, readonly string[]>> = {
  serve: [],
  init: [join(folder, 'task'), '--base-model', 'trainyard/spark', '--have', 'checker', '--prompts', 'sample'],
  // ends when it is told that there is no job
  worker: ['--cache-dir', join(folder, 'worker'), '--idle-exit', '1ms', '--retry', '1ms'],
  'engine-node': ['--base-model', 'trainyard/spark', '--cache-dir', join(folder, 'engine-node')],
  demo: ['--server', 'http://127.0.0.1:8642'],
  chat: ['email-agent', 'hi'],
  rollout: ['email-agent', '--prompts', prompts],
  'env check': [own],
  'env eval': [own, 'email-agent'],
  'env rollout': [own, 'email-agent'],
  'env train': [own, 'email-agent', '--out', run],
  'env list': [],
  mcp: [],
  'skills add': [],
  compare: ['email-agent:step1', 'email-agent', '--prompts', prompts],
  tune: ['email-agent', '--prompts', prompts, '--held-out', prompts],
  eval: ['email-agent', '--prompts', prompts],
  'train rl': ['email-agent', '--file', groups],
  'train dpo': ['email-agent', '--file', pairs],
  'train distill': [
    'email-agent',
    '--prompts',
    prompts,
    '--teacher',
    'email-agent',
    '--answers',
    join(folder, 'kept.jsonl'),
  ],
  'train sft': ['email-agent', '--file', rows],
  'train options': ['sft'],
  'grader check': [grader],
  'check openai': [grader],
  'data convert': [rows, '--to', 'sft'],
  log: ['email-agent', '--file', groups],
  'models list': [],
  'models create': ['new-model', '--base-model', 'trainyard/tiny-random'],
  'models get': ['email-agent'],
  'models evaluations': ['email-agent'],
  'models metrics': ['email-agent'],
  'models keep': ['email-agent'],
  'models note': ['email-agent'],
  'models delete': ['email-agent', '--yes'],
  'marks list': ['email-agent'],
  'marks add': ['email-agent', 'good', '--prompt', 'Hi', '--answer', 'Hello'],
  'marks delete': ['email-agent', 'mark-1', '--yes'],
  'marks export': ['email-agent'],
  'probes add': ['email-agent', 'hi'],
  'probes list': ['email-agent'],
  'probes answers': ['email-agent', '1'],
  'probes delete': ['email-agent', '1'],
  'base-models list': [],
  'base-models add': ['org/name'],
  'base-models remove': ['org/name', '--yes'],
  'checkpoints list': ['email-agent'],
  'checkpoints delete': ['email-agent', '--steps', '1', '--yes'],
  'checkpoints download': ['email-agent', '--out', folder],
  'jobs list': [],
  'jobs chart': ['email-agent'],
  'jobs get': [JOB.id],
  'jobs events': [JOB.id],
  'jobs watch': [JOB.id],
  'jobs data': [JOB.id],
  'jobs groups': [JOB.id],
  'jobs trajectory': [JOB.id, '0', '0'],
  'jobs wait': [JOB.id],
  'jobs cancel': [JOB.id, '--yes'],
  'jobs stop': [JOB.id],
  'loops create': ['email-agent', '--prompts', prompts, '--grader', grader],
  'loops list': [],
  'loops get': ['loop-1'],
  'loops watch': ['loop-1'],
  'loops pause': ['loop-1'],
  'loops resume': ['loop-1'],
  'loops cancel': ['loop-1'],
  'sessions list': [],
  'sessions end': ['01a21fc8-fe36-70c8-bf73-cb71d23aa227:train:0', '--yes'],
  backup: ['--out', join(folder, 'backup.tar'), '--data-dir', join(folder, 'nowhere')],
  move: ['--from', join(folder, 'nowhere'), '--database', 'postgres://nobody@127.0.0.1:1/nothing'],
  restore: [join(folder, 'no-backup.tar'), '--data-dir', join(folder, 'nowhere')],
  verify: [],
  'keys create': ['ci'],
  'keys list': [],
  'audit list': [],
  'keys usage': [],
  'keys revoke': ['ci', '--yes'],
  gateway: ['--upstream', 'https://api.example.com/v1'],
  'routes create': ['tickets', '--upstream', 'https://api.example.com/v1'],
  'routes list': [],
  'routes get': ['tickets'],
  'routes export': ['tickets', '--out', join(folder, 'rows-of-route.jsonl')],
  'routes delete': ['tickets', '--yes'],
  'webhooks create': ['https://example.com/hook'],
  'webhooks list': [],
  'webhooks deliveries': ['wh-1'],
  'webhooks test': ['wh-1'],
  'webhooks redeliver': ['wh-1', 'd-1'],
  'webhooks delete': ['wh-1'],
  usage: [],
  'system-check': ['--server-only'],
  devices: [],
  whoami: [],
  'config list': [],
  'config get': ['server'],
  'config set': ['project', 'games'],
  'config unset': ['project'],
  'config path': [],
  events: [],
  ui: [],
  open: [],
  completion: ['bash'],
  version: [],
}

/** Words of a command line, whole enough to run. */
export function lineOf(name: string): readonly string[] {
  const rest = completeLines[name]
  if (rest === undefined) throw new Error(`add a complete command line for "${name}" to completeLines`)
  return [...name.split(' '), ...rest]
}

/** Writes the files that the lines name: test files of one process share this module, and each removes them at its end. */
export function writeInputs(): void {
  mkdirSync(folder, { recursive: true })
  writeFileSync(own, "export const environment = { tasks: [{ prompt: 'a' }, { prompt: 'b' }], reward: () => 1 }\n")
  writeFileSync(grader, '{"type":"string_check","input":"a","reference":"a","operation":"eq"}')
  writeFileSync(prompts, '{"prompt":"2+2?","answer":"4"}\n')
  writeFileSync(groups, `${JSON.stringify({ trajectories })}\n`)
  writeFileSync(pairs, '{"prompt":"q","chosen":"a","rejected":"b"}\n')
  writeFileSync(rows, '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n')
}

/** Removes the files that the lines name. */
export function removeInputs(): void {
  rmSync(folder, { recursive: true, force: true, maxRetries: 20 })
}
