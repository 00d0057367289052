/**
 * Fairness between jobs and sessions as properties that hold in every state that chance comes to: no worker idles while something waits, kinds
 * take turns, nobody gives way for nobody, and whatever waits has its turn in bounded time.
 */
import { describe, expect, it } from 'vitest'
import { createRng, type Rng } from '#base/util/rng.js'
import { fairTurn, type Preemptible, type WorkKind, YIELD_IDLE_MS } from '#service/queue/fairness.js'

const TICK_MS = 500
const TURN_MS = 5000
const JOB_TICKS = 6
const SEEDS = Array.from({ length: 40 }, (_, seed) => seed)

/** A session with a worker: it works or idles until it has left. */
interface Session extends Preemptible {
  isBusy: boolean
  idleForMs: number
  servedForMs: number
  leavesInTicks: number | null
}

function session(isBusy: boolean): Session {
  const one: Session = {
    ...{ isBusy, idleForMs: 0, servedForMs: 0, leavesInTicks: null },
    idleMs: () => one.idleForMs,
    servedMs: () => one.servedForMs,
    isClosing: () => one.leavesInTicks !== null,
    close: () => {
      one.leavesInTicks ??= 1
    },
  }
  return one
}

/** Workers that jobs and sessions share by `fairTurn` alone. */
class Workers {
  readonly waiting = { job: 0, session: 0 }
  readonly starts: { readonly kind: WorkKind; readonly isContested: boolean; readonly last: WorkKind | null }[] = []
  readonly sessions: Session[] = []
  jobs: number[] = []
  last: WorkKind | null = null

  readonly count: number
  readonly rng: Rng

  constructor(count: number, rng: Rng) {
    this.count = count
    this.rng = rng
  }

  kinds(): Set<WorkKind> {
    return new Set((['job', 'session'] as const).filter((kind) => this.waiting[kind] > 0))
  }

  isFree(): boolean {
    return this.jobs.length + this.sessions.length < this.count
  }

  /** What the loop of the queue does at one look. */
  look(isBusy: () => boolean): void {
    while (this.isFree()) {
      const waiting = this.kinds()
      const turn = fairTurn({ isWorkerFree: true, waiting, last: this.last, held: [], turnMs: TURN_MS })
      if (turn?.action !== 'start') break
      expect(waiting.has(turn.kind)).toBe(true)
      this.starts.push({ kind: turn.kind, isContested: waiting.size === 2, last: this.last })
      this.last = turn.kind
      this.waiting[turn.kind] -= 1
      if (turn.kind === 'job') this.jobs.push(1 + this.rng.integer(JOB_TICKS))
      else this.sessions.push(session(isBusy()))
    }
    if (this.isFree()) expect(this.kinds().size, 'a worker idles while something waits').toBe(0)
    else this.preempt()
  }

  preempt(): void {
    const waiting = this.kinds()
    const held = this.sessions
    const turn = fairTurn({ isWorkerFree: false, waiting, last: this.last, held, turnMs: TURN_MS })
    if (turn?.action !== 'preempt') return
    const { work } = turn
    expect(waiting.size, 'nobody waits').toBeGreaterThan(0)
    expect(held.filter((one) => one.isClosing())).toEqual([])
    const longest = Math.max(...held.map((one) => one.idleForMs))
    if (longest >= YIELD_IDLE_MS) expect(work.idleForMs, 'the one that idles for longest').toBe(longest)
    else expect(work.servedForMs, 'had its turn').toBeGreaterThanOrEqual(TURN_MS)
    work.close()
  }

  tick(): void {
    this.jobs = this.jobs.map((ticks) => ticks - 1).filter((ticks) => ticks > 0)
    for (const one of [...this.sessions]) {
      one.servedForMs += TICK_MS
      one.idleForMs = one.isBusy ? 0 : one.idleForMs + TICK_MS
      if (one.leavesInTicks === 0) {
        this.sessions.splice(this.sessions.indexOf(one), 1)
        // one that was at work goes on behind the others
        if (one.isBusy) this.waiting.session += 1
      } else if (one.leavesInTicks !== null) one.leavesInTicks -= 1
    }
  }
}

describe('jobs and sessions', () => {
  it.each(SEEDS)('are started without idle workers and in turns, and give way by the rule alone (%i)', (seed) => {
    const rng = createRng(`fairness ${seed}`)
    const workers = new Workers(1 + rng.integer(4), rng)
    for (let tick = 0; tick < 300; tick += 1) {
      if (rng.uniform() < 0.3) workers.waiting.job += 1
      if (rng.uniform() < 0.2) workers.waiting.session += 1
      for (const one of workers.sessions) if (rng.uniform() < 0.2) one.isBusy = !one.isBusy
      workers.look(() => rng.uniform() < 0.5)
      workers.tick()
    }
    const contested = workers.starts.filter(({ isContested }) => isContested)
    expect(contested.length).toBeGreaterThan(0)
    for (const { kind, last } of contested) expect(kind).not.toBe(last)
  })

  it.each(SEEDS)('have their turn in bounded time beside sessions that never pause (%i)', (seed) => {
    const rng = createRng(`bounded ${seed}`)
    const workers = new Workers(1 + rng.integer(3), rng)
    workers.waiting.session = workers.count + 1 + rng.integer(4)
    const sessions = workers.waiting.session
    workers.look(() => true)
    const jobs = 1 + rng.integer(5)
    workers.waiting.job = jobs
    // of each two turns one is a job's: a turn, the end of a session, and a job's own time
    const mostTicks = 2 * (jobs + 1) * (TURN_MS / TICK_MS + 2 + JOB_TICKS)
    let ticks = 0
    for (; workers.waiting.job > 0 && ticks <= mostTicks; ticks += 1) {
      workers.tick()
      workers.look(() => true)
    }
    expect(workers.waiting.job).toBe(0)
    // and no session is lost, nor started without an end of another
    expect(workers.sessions.length + workers.waiting.session).toBe(sessions)
    const before = workers.starts.length
    for (let tick = 0; tick < sessions * mostTicks; tick += 1) {
      workers.tick()
      workers.look(() => true)
    }
    expect(workers.starts.length - before, 'sessions take turns with each other').toBeGreaterThan(sessions)
  })

  it('a session keeps its worker while nobody waits, however long it idles', () => {
    const held = session(false)
    held.idleForMs = 1e9
    const none = { isWorkerFree: false, last: null, held: [held], turnMs: TURN_MS }
    expect(fairTurn({ ...none, waiting: new Set() })).toBeNull()
    expect(fairTurn({ ...none, waiting: new Set<WorkKind>(['job']) })).toEqual({ action: 'preempt', work: held })
  })
})
