/**
 * From a fresh data directory to a trained model that answers, with a mouse and nothing else: the demo in three minutes, own
 * examples in ten. `TRAINYARD_DEMO_STEPS=2` ends the demo after so many steps, as its button does; UI_SHOTS=<folder> keeps a
 * picture of each click.
 */
import { availableParallelism, loadavg } from 'node:os'
import { join } from 'node:path'
import type { Browser, Locator, Page } from 'playwright-core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from '../ui/browser.js'

const MINUTE_MS = 60_000
/** What others take of the machine makes it later. */
const busy = (): number => Math.max(1, (2 * (loadavg()[0] ?? 0)) / availableParallelism())
const PATIENCE_MS = 90 * MINUTE_MS
const EXAMPLES = ['I am sad today.', 'I lost my key.', 'It is late.', 'My train is gone.']
  .map((content) =>
    JSON.stringify({
      messages: [
        { role: 'user', content },
        { role: 'assistant', content: 'Oh no. What happened?' },
      ],
    }),
  )
  .join('\n')

let service: TestService
let browser: Browser

/** A window in which every click is one of the mouse, and the keyboard is never used. */
async function openByLink() {
  const token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
  const window = await openWindow(browser, service.url, { token })
  window.context.setDefaultTimeout(PATIENCE_MS)
  let clicks = 0
  const click = async (target: Locator): Promise<void> => {
    await target.scrollIntoViewIfNeeded()
    const box = await target.boundingBox()
    if (box === null) throw new Error('nothing to click')
    await window.page.mouse.click(box.x + box.width / 2, box.y + box.height / 2)
    clicks += 1
    await picture(window.page, clicks)
  }
  return { ...window, click, clicks: () => clicks }
}

async function picture(page: Page, n: number): Promise<void> {
  const folder = process.env['UI_SHOTS']
  const name = expect.getState().currentTestName?.split(' ').at(-1) ?? ''
  if (folder !== undefined) await page.screenshot({ path: join(folder, `from-zero-${name}-${n}.png`) })
}

/** Asks by an opening that stands there, and waits for what it says. */
async function talk(page: Page, click: (target: Locator) => Promise<void>): Promise<string> {
  await click(page.getByRole('link', { name: 'Play', exact: true }).last())
  await click(page.getByRole('button', { name: 'I am sad today.' }))
  const answer = page.locator('.answer[aria-busy=false]')
  await answer.waitFor()
  return (await answer.textContent()) ?? ''
}

describe.skipIf(CHROMIUM === null)('from zero to a model that answers', () => {
  beforeEach(async () => {
    service = await createTestService({ scripted: false, baseModels: ['trainyard/spark'] })
    browser = await launchBrowser()
  })
  afterEach(async () => {
    await browser?.close()
    await service?.dispose()
  })

  test('by the demo', { timeout: PATIENCE_MS }, async () => {
    const { page, click, clicks, problems } = await openByLink()
    await page.goto('/ui/')
    const startedAt = performance.now()
    await click(page.getByRole('button', { name: 'Run the demo' }))
    const line = page.getByRole('region', { name: 'Demo' })
    const steps = Number(process.env['TRAINYARD_DEMO_STEPS'] ?? Number.NaN)
    if (Number.isInteger(steps)) {
      await line.getByText(`at step ${steps}`).waitFor()
      await click(line.getByRole('button', { name: 'Stop the demo' }))
    }
    await line.getByText(/The demo is done|was stopped/).waitFor()
    await click(line.getByRole('link', { name: 'Watch its curve' }))
    await page.locator('.u-over').first().waitFor()
    const said = await talk(page, click)
    const took = performance.now() - startedAt
    console.log(`the demo: ${Math.round(took / 1000)} s, ${clicks()} clicks, load ${loadavg()[0]}: ${said}`)
    expect(said).toMatch(/[a-z]/)
    expect(took).toBeLessThan(3 * MINUTE_MS * busy())
    expect(await problems()).toEqual([])
  })

  test('by own examples', { timeout: PATIENCE_MS }, async () => {
    const { page, click, clicks, problems } = await openByLink()
    await page.goto('/ui/')
    const startedAt = performance.now()
    await click(page.getByRole('link', { name: 'Data', exact: true }))
    const chooser = page.waitForEvent('filechooser')
    await click(page.locator('.drop'))
    const buffer = Buffer.from(EXAMPLES)
    await (await chooser).setFiles({ name: 'mine.jsonl', mimeType: 'application/jsonl', buffer })
    await click(page.getByRole('link', { name: 'Plan a job: tokens, and what trains' }))
    await click(page.getByRole('button', { name: 'Create the model' }))
    await click(page.getByRole('button', { name: 'Show the plan' }))
    await page.getByText('this is what will run').waitFor()
    await click(page.getByRole('button', { name: 'Start the job' }))
    await page.locator('.title .status.completed').waitFor()
    await click(page.getByRole('link', { name: 'my-model', exact: true }))
    await page.locator('.u-over').first().waitFor()
    const said = await talk(page, click)
    const took = performance.now() - startedAt
    console.log(`own examples: ${Math.round(took / 1000)} s, ${clicks()} clicks, load ${loadavg()[0]}: ${said}`)
    expect(said).toMatch(/[a-z]/)
    expect(took).toBeLessThan(10 * MINUTE_MS * busy())
    const models = await until(async () => {
      const { body } = await service.json<{ data: { name: string; step: number }[] }>('/v1/preview/models')
      return body.data
    }, 'the list of models')
    expect(models).toMatchObject([{ name: 'my-model', step: 1 }])
    expect(await problems()).toEqual([])
  })
})
