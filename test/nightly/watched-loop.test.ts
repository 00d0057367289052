/**
 * A loop of 200 steps is watched for five minutes: what is read stays where it is, a part of the axis that was chosen stays
 * chosen, the server is asked little, the browser computes little, eight windows that are all seen are all live, and over a slow
 * network the list is never long behind. `TRAINYARD_WATCH_SECONDS=60 npx vitest run test/nightly/watched-loop.test.ts` watches a
 * shorter one.
 */
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from '../ui/browser.js'

const SECONDS = Number(process.env['TRAINYARD_WATCH_SECONDS'] ?? 300)
const STEPS = Math.max(10, Math.round((200 * SECONDS) / 300))
/** Steps that are there before it is watched: enough to scroll, and to choose a part of. */
const BEFORE = 8
const MOST_A_SECOND = 2
/** Of one core, by the browser's own count of processor time. */
const MOST_OF_A_CORE = 0.1
const WINDOWS = 8
const LATENCY_MS = 1500
/** Beside the latency; and what a busy machine holds up a timer of the page by. */
const MOST_BEHIND_MS = 3000

let service: TestService
let browser: Browser
let token: string
let modelId: string

async function step(): Promise<void> {
  const { status, body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
    json: {
      model_id: modelId,
      trajectory_groups: [sampleGroup([0.25, Math.random()])],
      experimental_config: { stand_in: { steps: 4, delay_ms: 100 } },
    },
  })
  expect(status, JSON.stringify(body)).toBe(200)
  expect((await service.waitForJob(body.id)).status).toBe('completed')
}

/** Processor time of the renderers so far, seconds, the busiest one first. */
async function rendererSeconds(): Promise<ReadonlyMap<number, number>> {
  const session = await browser.newBrowserCDPSession()
  const { processInfo } = await session.send('SystemInfo.getProcessInfo')
  await session.detach()
  return new Map(processInfo.flatMap(({ type, id, cpuTime }) => (type === 'renderer' ? [[id, cpuTime] as const] : [])))
}

/** When the page showed each step, by its own clock since it began to look, and how late its timer ever was. */
const LOOK = `window.seen = new Map()
  window.latest = 0
  let before = performance.now()
  setInterval(() => {
    const now = performance.now()
    window.latest = Math.max(window.latest, now - before - 100)
    before = now
    const cell = [...document.querySelectorAll('tbody tr')].find((row) => row.textContent.includes('watched'))
    const shown = Number(cell?.querySelector('td[data-label=Step]')?.textContent ?? -1)
    if (!window.seen.has(shown)) window.seen.set(shown, Date.now())
  }, 100)`

async function watchReader(page: Page) {
  await page.goto('/ui/models/tests/watched')
  await page
    .locator('tbody tr')
    .nth(BEFORE - 1)
    .waitFor()
  await page.locator('.verdict .word').waitFor()
  const box = await page.locator('.u-over').first().boundingBox()
  if (box === null) throw new Error('no chart')
  await page.mouse.move(box.x + box.width * 0.2, box.y + 40)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width * 0.6, box.y + 40, { steps: 4 })
  await page.mouse.up()
  await page.waitForURL(/zoom=[\d.]+$/)
  const url = page.url()
  await page.setViewportSize({ width: 1280, height: 240 })
  const row = page.locator('tbody tr', { has: page.locator('th', { hasText: /^1$/ }) })
  await row.scrollIntoViewIfNeeded()
  await page.evaluate('document.querySelectorAll("canvas").forEach((canvas) => { canvas.isFirst = true })')
  const place = async (): Promise<number> => (await row.boundingBox())?.y ?? Number.NaN
  const first = await place()
  let jump = 0
  return {
    url,
    /** How far the row that is read is from where it was. */
    look: async (): Promise<void> => {
      jump = Math.max(jump, Math.abs((await place()) - first))
    },
    jump: () => jump,
  }
}

async function openEight(context: BrowserContext, first: Page): Promise<readonly Page[]> {
  const more = await Promise.all(Array.from({ length: WINDOWS - 1 }, () => context.newPage()))
  const paths = ['/ui/', '/ui/models/tests/watched']
  await Promise.all(more.map((page, i) => page.goto(paths[i % paths.length] ?? '/ui/')))
  return [first, ...more]
}

/** The newest step that a window shows. */
async function shownStep(page: Page): Promise<number> {
  const isList = new URL(page.url()).pathname === '/ui/'
  const row = isList ? page.locator('tbody tr', { hasText: 'watched' }) : page.locator('tbody tr').first()
  return Number(
    await row
      .locator(isList ? 'td[data-label=Step]' : 'th')
      .first()
      .textContent(),
  )
}

describe.skipIf(CHROMIUM === null)('a loop that is watched', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    modelId = await service.createModel('watched')
    for (let i = 0; i < BEFORE; i += 1) await step()
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })

  test(`${STEPS} steps in ${SECONDS} seconds`, { timeout: 20 * SECONDS * 1000 + 600_000 }, async () => {
    const near = await openWindow(browser, service.url, { token })
    const far = await openWindow(browser, service.url, { token })
    const asked: string[] = []
    near.page.on('request', (request) => {
      if (new URL(request.url()).pathname.startsWith('/v1/')) asked.push(request.url())
    })
    const reader = await watchReader(near.page)
    await far.page.route('**/v1/**', async (route) => {
      await new Promise((resolve) => setTimeout(resolve, LATENCY_MS))
      await route.continue().catch(() => undefined)
    })
    await far.page.addInitScript({ content: LOOK })
    await far.page.goto('/ui/')
    await far.page.locator('tbody tr', { hasText: 'watched' }).waitFor()

    asked.length = 0
    const before = await rendererSeconds()
    const startedAt = performance.now()
    const madeAt = new Map<number, number>()
    for (let i = 1; i <= STEPS; i += 1) {
      await step()
      madeAt.set(BEFORE + i, Date.now())
      await reader.look()
      const restMs = (i * SECONDS * 1000) / STEPS - (performance.now() - startedAt)
      if (restMs > 0) await new Promise((resolve) => setTimeout(resolve, restMs))
    }
    const seconds = (performance.now() - startedAt) / 1000
    const after = await rendererSeconds()
    await until(async () => (await shownStep(near.page)) === BEFORE + STEPS || null, 'the last step')
    await reader.look()

    expect(asked.length / seconds, `${asked.length} requests`).toBeLessThanOrEqual(MOST_A_SECOND)
    const shares = [...after].map(([id, now]) => (now - (before.get(id) ?? 0)) / seconds)
    expect(Math.max(...shares), 'of a core').toBeLessThanOrEqual(MOST_OF_A_CORE)
    expect(reader.jump(), 'pixels that the row moved').toBeLessThan(2)
    expect(near.page.url()).toBe(reader.url)
    const isFirst = '[...document.querySelectorAll("canvas")].every((canvas) => canvas.isFirst)'
    expect(await near.page.evaluate(isFirst), 'charts are those of the beginning').toBe(true)

    // a step that the list did not show by itself was there by the time it showed a later one
    const hasLast = `window.seen.has(${BEFORE + STEPS})`
    await until(async () => (await far.page.evaluate<boolean>(hasLast)) || null, 'the last step, far away')
    const seen = await far.page.evaluate<readonly (readonly [number, number])[]>('[...window.seen]')
    const late = await far.page.evaluate<number>('window.latest')
    const behind = [...madeAt].map(([made, atMs]) => {
      const shown = seen.filter(([which]) => which >= made).map(([, shownMs]) => shownMs)
      return Math.min(...shown) - atMs
    })
    const figures = { seconds, requests: asked.length, share: Math.max(...shares), behind: Math.max(...behind), late }
    console.log(`watched ${STEPS} steps: ${JSON.stringify(figures)}`)
    expect(Math.max(...behind), JSON.stringify(figures)).toBeLessThanOrEqual(MOST_BEHIND_MS + LATENCY_MS + late)
    await far.context.close()

    const windows = await openEight(near.context, near.page)
    for (let i = 1; i <= 3; i += 1) await step()
    await until(async () => {
      const shown = await Promise.all(windows.map(shownStep))
      return shown.every((which) => which === BEFORE + STEPS + 3) || null
    }, 'eight windows with the newest step')
    await near.context.close()
  })
})
