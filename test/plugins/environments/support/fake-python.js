#!/usr/bin/env node
/**
 * Stands for a Python with reasoning-gym: answers the bridge's lines, a sum a task, and fails in the way that the task's
 * name says.
 */
import { spawn } from 'node:child_process'
import { appendFileSync, existsSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

// what is looked for is there
if (process.argv[2] === '-c') process.exit(0)

const say = (value) => process.stdout.write(`${typeof value === 'string' ? value : JSON.stringify(value)}\n`)
const questionOf = (seed) => ({
  question: `${seed % 7}+${seed % 5}?`,
  answer: String((seed % 7) + (seed % 5)),
  metadata: {},
})

/** What a task's name does at its score. */
const FAULTS = {
  crash() {
    process.stderr.write('Traceback: the scorer fell over\n')
    process.exit(3)
  },
  garbage: () => say('this is no JSON'),
  long: () => process.stdout.write(`{"id":1,"ok":true,"text":"${'x'.repeat(17 * 1024 * 1024)}"}\n`),
  stray: () => say({ id: 999_999, ok: true }),
  // a program of its own that would outlive it
  hang(_request, settings) {
    if (settings.pidFile === undefined) return
    const child = spawn(process.execPath, ['-e', 'setInterval(() => undefined, 1000)'], { stdio: 'ignore' })
    writeFileSync(settings.pidFile, String(child.pid))
  },
  nan: ({ id }) => say({ id, ok: true, reward: 'nan' }),
  refuse: ({ id }) => say({ id, ok: false, error: 'ValueError: no such answer' }),
  lengths: ({ id, answer }) => say({ id, ok: true, reward: (answer.length % 5) / 4 }),
  over: ({ id }) => say({ id, ok: true, reward: 7 }),
  // hangs once: the next process finds the file
  once(request, settings) {
    if (existsSync(settings.pidFile)) return score(request)
    writeFileSync(settings.pidFile, '')
  },
}

function score({ id, seed, answer }) {
  say({ id, ok: true, reward: answer === questionOf(seed).answer ? 1 : 0 })
}

if (process.env.FAKE_START === 'crash') {
  process.stderr.write('ImportError: half an installation\n')
  process.exit(1)
}
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line)
  const { id, op, dataset, settings } = request
  if (op === 'describe')
    say({ id, ok: true, version: '0.1.25', config: { settings, seen: Object.keys(process.env).sort() } })
  else if (op === 'tasks') say({ id, ok: true, tasks: request.seeds.map(questionOf) })
  else {
    if (process.env.FAKE_PLAYED) appendFileSync(process.env.FAKE_PLAYED, `${dataset}\n`)
    ;(FAULTS[dataset] ?? score)(request, settings)
  }
}
