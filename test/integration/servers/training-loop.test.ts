/**
 * A training loop whose requests go to two servers in turn: its worker is at one of them, and when that one is killed it goes on at the other,
 * with the losses of a loop on one server that lives.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { startKillableServer } from '../../support/service/killable-server.js'
import {
  NO_SEVERAL_SERVERS,
  type SharedParts,
  startGroup,
  startSharedParts,
} from '../../support/storage/several-servers.js'
import { openTinker, plainRows } from '../../support/tinker/tinker-client.js'

const STEPS = 12
/** After these steps the server is killed whose worker the loop has. */
const KILLS = [4, 8]
const CALL = { loss: 'cross_entropy', data: plainRows([[1, 20, 30, 40, 50, 60]]) }
const STEP = { adam_params: { learning_rate: 1e-2 } }
const LEASE_MS = 4000
const HOLDER = 'select server_id from training_sessions where server_id is not null'

/** @param afterStep called with how many steps are done */
async function lossesOf(
  service: { readonly url: string; readonly apiKey: string },
  afterStep: (count: number) => Promise<void> = async () => undefined,
): Promise<number[]> {
  const tinker = await openTinker(service, { isPatient: true })
  const run = await tinker.createRun({ seed: 5 })
  const losses: number[] = []
  while (losses.length < STEPS) {
    const loss = await run.send(CALL)
    const step = await run.post('optim_step', STEP)
    losses.push((await tinker.loss(loss)).loss)
    await tinker.result(step)
    await afterStep(losses.length)
  }
  return losses
}

describe.skipIf(NO_SEVERAL_SERVERS !== null)(NO_SEVERAL_SERVERS ?? 'a training loop at two servers', () => {
  let shared: SharedParts
  beforeAll(async () => {
    shared = await startSharedParts()
  })
  afterAll(() => shared?.stop())

  it('has its worker at the server that has some, which hears of it and does not wait for its next look', async () => {
    // nobody looks by itself before the test is over
    const tuning = { jobs: { sweepMs: 3_600_000 } }
    const group = await startGroup(await shared.newGroup(), [
      { trainWorkers: 0, tuning },
      { trainWorkers: 1, tuning },
    ])
    onTestFinished(() => group.stop())
    const service = { url: group.at(1).url, apiKey: group.apiKey }
    const tinker = await openTinker(service, { isPatient: true })
    const run = await tinker.createRun({ seed: 5 })
    service.url = group.at(0).url
    const loss = await run.send(CALL)
    const step = await run.post('optim_step', STEP)
    expect((await tinker.loss(loss)).loss).toBeGreaterThan(0)
    await tinker.result(step)
    const [row] = await shared.postgres.query<{ server_id: string }>(group.database, HOLDER)
    expect(row?.server_id).toBe((await readFile(join(String(group.places[1]?.dataDir), 'server-id'), 'utf8')).trim())
  })

  it('goes on at the other when the one is killed that has its worker', { timeout: 300_000 }, async () => {
    const tuning = { serverLeaseMs: LEASE_MS, jobs: { leaseMs: LEASE_MS, startMs: 60_000 } }
    const options = { trainWorkers: 1, tuning }
    const group = await startGroup(await shared.newGroup(), [options, options])
    onTestFinished(() => group.stop())
    let turn = 0
    const alternating = {
      get url() {
        turn += 1
        return group.at(turn % 2).url
      },
      apiKey: group.apiKey,
    }
    let killed: number | null = null
    const losses = await lossesOf(alternating, async (count) => {
      // the step before was made by the other alone
      if (killed !== null) await group.start(killed)
      killed = null
      if (!KILLS.includes(count)) return
      const [row] = await shared.postgres.query<{ server_id: string }>(group.database, HOLDER)
      const ids = await Promise.all(group.places.map((place) => readFile(join(place.dataDir, 'server-id'), 'utf8')))
      killed = ids.findIndex((id) => id.trim() === row?.server_id)
      expect(killed).not.toBe(-1)
      await group.kill(killed)
    })
    const attempts = await shared.postgres.query<{ attempt: string }>(
      group.database,
      'select attempt from training_sessions',
    )
    expect(attempts).toHaveLength(1)
    // on a busy machine a lease may run out besides
    expect(Number(attempts[0]?.attempt)).toBeGreaterThanOrEqual(KILLS.length + 1)
    const dataDir = await mkdtemp(join(tmpdir(), 'trainyard-quiet-'))
    onTestFinished(() => rm(dataDir, { recursive: true, force: true, maxRetries: 20 }))
    const quiet = await startKillableServer({ dataDir, threads: 1, trainWorkers: 1 })
    onTestFinished(() => quiet.kill('SIGKILL'))
    expect(losses).toEqual(await lossesOf(quiet))
  })
})
