/**
 * A pipelined training loop whose worker and server are killed with `kill -9` at random moments: where it may go on between, it ends
 * with the losses of an undisturbed one; where it may not, it stops with an error behind losses that are those of it.
 *
 * `LOOP_KILLS=100 LOOP_SEED=2` kills more often, at other moments; both are said when the test fails.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createRng } from '#base/util/rng.js'
import {
  childrenOf,
  commandOf,
  type KillableServer,
  startKillableServer,
} from '../../support/service/killable-server.js'
import { openTinker, plainRows, type TestRun, type TinkerTestClient } from '../../support/tinker/tinker-client.js'
import { until } from '../../support/until.js'

const KILLS = Number(process.env['LOOP_KILLS'] ?? 8)
const SEED = process.env['LOOP_SEED'] ?? '1'
/** Steps of a loop; its client sends `AHEAD` of them before it reads a result. */
const STEPS = 60
const AHEAD = 4
/** Longer than a worker takes to come back on a quiet machine, so that most kills meet one that trains. */
const MOST_DELAY_MS = 2500

let directory: string
let server: KillableServer
let apiKey = ''

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'trainyard-loop-'))
  apiKey = ''
})
afterEach(async () => {
  await server.kill('SIGKILL')
  await rm(directory, { recursive: true, force: true, maxRetries: 20 })
})

async function startServer(): Promise<void> {
  server = await startKillableServer({
    dataDir: join(directory, 'data'),
    threads: 1,
    trainWorkers: 1,
    // a state is stored now and then, so that some losses are repeated from it and some from the beginning
    resumeIntervalMs: 400,
    ...(apiKey === '' ? {} : { apiKey }),
  })
  apiKey = server.apiKey
}

interface LoopEnd {
  readonly losses: readonly number[]
  /** Why it stopped; null: it did not. */
  readonly error: string | null
}

/** Every step has rows of its own: one that is left out, or made twice, shows in all later losses. */
function rowsOf(step: number) {
  return plainRows([
    [1, 20 + (step % 7), 30, 40 + (step % 5), 50, 60],
    [2, 21, 31 + (step % 3), 41],
  ])
}

async function sendStep(run: TestRun, step: number): Promise<string> {
  const id = await run.send({ loss: 'cross_entropy', data: rowsOf(step) })
  await run.post('optim_step', { adam_params: { learning_rate: 0.003 } })
  if (step % 10 === 9) await run.post('save_weights', { path: `step-${step}` })
  if (step % 10 === 4) await run.post('save_weights_for_sampler', { sampling_session_seq_id: step })
  return id
}

/** How far a loop is. */
interface Progress {
  sent: number
  /** Hears of each loss. */
  readonly onLoss: (step: number) => void
}

async function loop(tinker: TinkerTestClient, progress?: Progress): Promise<LoopEnd> {
  const run = await tinker.createRun({ seed: 7 })
  const losses: number[] = []
  const sent: string[] = []
  try {
    for (let step = 0; step < STEPS; step++) {
      while (sent.length < Math.min(STEPS, step + AHEAD)) {
        sent.push(await sendStep(run, sent.length))
        if (progress !== undefined) progress.sent = sent.length
      }
      losses.push((await tinker.loss(sent[step] as string)).loss)
      progress?.onLoss(step)
    }
    return { losses, error: null }
  } catch (error) {
    return { losses, error: error instanceof Error ? error.message : String(error) }
  }
}

/** Kills the worker, if there is one, or the server, which takes its children with it and is started again. */
async function kill(victim: 'worker' | 'server'): Promise<boolean> {
  if (victim === 'server') {
    await server.kill('SIGKILL')
    await startServer()
    return true
  }
  const workers = childrenOf(server.pid).filter((pid) => commandOf(pid).includes('training/worker/main.js'))
  for (const pid of workers) process.kill(pid, 'SIGKILL')
  return workers.length > 0
}

it('a loop that is killed anywhere has the losses of an undisturbed one, as far as it goes', {
  timeout: 300_000 + KILLS * 20_000,
}, async () => {
  await startServer()
  const tinker = await openTinker(
    {
      get url() {
        return server.url
      },
      apiKey,
    },
    { isPatient: true },
  )
  const undisturbed = await loop(tinker)
  expect(undisturbed).toMatchObject({ error: null })
  expect(new Set(undisturbed.losses).size).toBe(STEPS)

  const said = `seed ${SEED}, ${KILLS} kills`
  const rng = createRng(`killed loop ${SEED}`)
  let kills = 0
  /** Kills since the loop has got beyond all that it had sent when the first of them came. */
  let inRow = 0
  let sentAtKill = 0
  const progress: Progress = {
    sent: 0,
    onLoss: (step) => {
      if (step >= sentAtKill) inRow = 0
    },
  }
  let isOver = false
  async function killAll(): Promise<void> {
    while (kills < KILLS && !isOver) {
      await sleep(rng.uniform() * MOST_DELAY_MS)
      // a third in a row at one request ends that request
      await until(() => inRow < 2 || isOver, `a loss after ${kills} kills, ${said}`, 200_000)
      if (isOver) return
      inRow += 1
      sentAtKill = progress.sent
      if (await kill(rng.integer(3) === 0 ? 'server' : 'worker')) kills += 1
    }
  }
  async function loopOn(): Promise<void> {
    do {
      progress.sent = 0
      sentAtKill = 0
      inRow = 0
      expect(await loop(tinker, progress), said).toEqual(undisturbed)
    } while (kills < KILLS && !isOver)
  }
  // where one fails the other ends too, and only then it is said: no server is started behind the end of the test
  const either = async (run: () => Promise<void>): Promise<void> => {
    try {
      await run()
    } catch (error) {
      isOver = true
      throw error
    }
  }
  for (const end of await Promise.allSettled([either(loopOn), either(killAll)])) {
    if (end.status === 'rejected') throw end.reason
  }

  // from here on no worker lives for long
  const stopped = loop(tinker)
  let isStopped = false
  void stopped.finally(() => {
    isStopped = true
  })
  while (!isStopped) {
    await sleep(rng.uniform() * 200)
    await kill('worker')
  }
  const { losses, error } = await stopped
  expect(error, said).toMatch(/training workers were lost at this request|cannot go on after request \d+/)
  expect(losses, said).toEqual(undisturbed.losses.slice(0, losses.length))
})
