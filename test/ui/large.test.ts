/**
 * The page of a large server: 10,000 models, one of them with 2,000 steps and 1,000 jobs, one job of 2,000 gradient steps. What it asks for and
 * what it draws do not grow with them.
 */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openSqlite } from '#service/storage/sqlite.js'
import { fillLargeDatabase } from '../support/large-database.js'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { openDatabase } from '../support/service/with-plugins.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'

const COUNTS = { models: 10_000, jobs: 1000, steps: 2000, gradientSteps: 2000 }
/** Elements of a page with 50 rows and their curves. */
const MOST_ELEMENTS = 3500

let service: TestService
let browser: Browser
let token: string
let newest: string

/** How many jobs run is asked for when news come, which is not the list's doing. */
function expectOneList(asked: readonly string[]): void {
  expect(
    asked.filter((path) => path.startsWith('/v1/preview/models')),
    asked.join('\n'),
  ).toHaveLength(1)
}

describe.skipIf(CHROMIUM === null)('the page of a large server', () => {
  beforeAll(async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'trainyard-large-'))
    const file = join(dataDir, 'trainyard.sqlite3')
    await (await openDatabase(file)).close()
    const sqlite = openSqlite(file)
    newest = fillLargeDatabase(sqlite, COUNTS)
    sqlite.close()
    service = await createTestService({ dataDir, database: null })
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })

  /** A window that notes what it asks the API for, without what it follows. */
  async function open() {
    const window = await openWindow(browser, `http://127.0.0.1:${new URL(service.url).port}`, { token })
    const asked: string[] = []
    window.page.on('request', (request) => {
      const { pathname, search } = new URL(request.url())
      if (pathname.startsWith('/v1/') && !/\/(events|whoami)$/.test(pathname)) asked.push(pathname + search)
    })
    const elements = () => window.page.evaluate<number>('document.querySelectorAll("*").length')
    return { ...window, asked, elements }
  }

  test('lists 50 of 10,000 models, by few requests; a search and "More" are one each', async () => {
    const { context, page, problems, asked, elements } = await open()
    await page.goto('/ui/')
    const rows = page.locator('tbody tr')
    await rows.nth(49).waitFor()
    expect(await rows.count()).toBe(50)
    expectOneList(asked)
    // running and queued jobs, base models, models, the demo
    expect(asked.length, asked.join('\n')).toBeLessThanOrEqual(6)
    expect(await elements()).toBeLessThan(MOST_ELEMENTS)
    asked.length = 0
    await page.getByRole('button', { name: 'More' }).click()
    await rows.nth(99).waitFor()
    expectOneList(asked)
    asked.length = 0
    // the way back leads to the same rows, and to the one that was gone to
    await rows.nth(95).scrollIntoViewIfNeeded()
    const place = () => page.evaluate<number>('scrollY')
    const before = await place()
    await rows.nth(95).getByRole('link').click()
    await page.waitForURL('**/ui/models/**')
    await page.goBack()
    await rows.nth(99).waitFor()
    await until(async () => Math.abs((await place()) - before) < 5 || null, 'it is where it was')
    asked.length = 0
    await page.locator('input[type=search]').fill('n9999')
    await page.keyboard.press('Enter')
    await page.getByText('n9999').waitFor()
    await rows.nth(1).waitFor({ state: 'detached' })
    expectOneList(asked)
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('draws 2,000 steps of a model with 1,000 jobs from thinned curves and a window of rows', async () => {
    const { context, page, problems, asked, elements } = await open()
    await page.goto('/ui/models/default/n0')
    await page.locator('canvas').first().waitFor()
    await page.getByText(/\d steps? more/).waitFor()
    expect(await page.locator('tbody tr').count()).toBe(50)
    // every job is gone to, not only the newest
    await page.getByRole('link', { name: String(COUNTS.steps), exact: true }).waitFor()
    await page.getByText(/\d steps? more/).click()
    await page.getByRole('link', { name: String(COUNTS.steps - 200), exact: true }).waitFor()
    // the model, its curves and jobs, and what the newest step was taught with and answers
    expect(asked.length, asked.join('\n')).toBeLessThanOrEqual(5)
    expect(asked.filter((path) => path.includes('/metrics'))).toHaveLength(1)
    expect(await elements()).toBeLessThan(MOST_ELEMENTS)
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('lists checkpoints and jobs of it in pages', async () => {
    const { context, page, problems, asked, elements } = await open()
    await page.goto('/ui/models/default/n0/checkpoints')
    await page.locator('tbody tr').nth(20).waitFor()
    expect(await elements()).toBeLessThan(MOST_ELEMENTS)
    // the model, its curves, its rule, and its checkpoints by a hundred: what may be deleted by rule is all of them
    expect(asked, asked.join('\n')).toHaveLength(3 + COUNTS.jobs / 100)
    expect(await page.locator('tbody tr').count()).toBe(100)
    asked.length = 0
    await page.goto('/ui/jobs')
    await page.getByRole('link', { name: 'n0', exact: true }).first().waitFor()
    // one list, and each model of it once
    expect(asked.length, asked.join('\n')).toBeLessThanOrEqual(2)
    // many jobs of a model are one row, which leads to all of them
    await page
      .locator('tbody tr', { hasText: /\d+ jobs/ })
      .getByRole('rowheader')
      .getByRole('link')
      .click()
    await page.waitForURL('**/jobs?kind=*')
    await page.locator('tbody tr').nth(49).waitFor()
    expect(await page.locator('tbody tr').count()).toBe(50)
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('shows a job of 2,000 gradient steps whole: every event once, one chart a number', async () => {
    const { context, page, problems } = await open()
    await page.goto(`/ui/jobs/${newest}`)
    await page.locator('.log p', { hasText: 'ended: step' }).waitFor()
    expect(await page.locator('.log p').count()).toBe(COUNTS.gradientSteps + 1)
    await page.locator('canvas').first().waitFor()
    expect(await page.locator('canvas').count()).toBeLessThan(20)
    expect(await problems()).toEqual([])
    await context.close()
  })
})
