/**
 * Charts: every point is reached by keyboard; a click, a tap and Enter choose a step, whose answers stand beside; numbers and picture are
 * saved.
 */
import { readFile } from 'node:fs/promises'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

const JOBS = 4

let service: TestService
let browser: Browser
let token: string
const jobs: string[] = []

describe.skipIf(CHROMIUM === null)('a chart', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    const model = await service.createModel('learner')
    for (let i = 0; i < JOBS; i += 1) {
      const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
        json: { model_id: model, trajectory_groups: [sampleGroup([0.25, 0.5 + i / 8])] },
      })
      expect((await service.waitForJob(body.id)).status).toBe('completed')
      jobs.push(body.id)
    }
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })
  const open = () => openWindow(browser, service.url, { token, hasTouch: true })

  test('is reached point by point by keyboard, and Enter chooses a step, whose job is a link beside', async () => {
    const window = await open()
    const { context, page } = window
    await page.goto('/ui/models/tests/learner')
    const plot = page.getByRole('slider', { name: /^Reward/ }).first()
    await plot.focus()
    const said: (string | null)[] = []
    await page.keyboard.press('Home')
    for (let i = 0; i < JOBS; i += 1) {
      said.push(await plot.getAttribute('aria-valuetext'))
      await page.keyboard.press('ArrowRight')
    }
    expect(said.map((text) => /^step (\d+): Reward /.exec(text ?? '')?.[1])).toEqual(['1', '2', '3', '4'])
    await expectSound(window, 'chart')
    await plot.focus()
    await page.keyboard.press('Home')
    await page.keyboard.press('ArrowRight')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/learner?at=2')
    await page.getByRole('heading', { name: 'Step 2', exact: true }).waitFor()
    await page.getByRole('link', { name: 'Its job' }).click()
    await page.waitForURL(`**/ui/jobs/${jobs[1]}`)
    await context.close()
  })

  test('a click and a tap choose a step', async () => {
    const { context, page } = await open()
    await page.goto('/ui/models/tests/learner')
    // what stands above the charts has come
    await page.locator('.verdict .word').waitFor()
    await page.locator('.findings').waitFor()
    const place = async () => {
      const box = await page.locator('.u-over').first().boundingBox()
      if (box === null) throw new Error('no chart')
      return box
    }
    const box = await place()
    await page.touchscreen.tap(box.x + 2, box.y + 30)
    await page.waitForURL('**/learner?at=1')
    const now = await place()
    await page.mouse.click(now.x + now.width - 2, now.y + 30)
    await page.waitForURL(`**/learner?at=${JOBS}`)
    await context.close()
  })

  test('its numbers and its picture are saved; a log scale is in the address', async () => {
    const { context, page, problems } = await open()
    await page.goto('/ui/models/tests/learner')
    const save = async (name: string) => {
      const saved = page.waitForEvent('download')
      await page.getByRole('button', { name }).first().click()
      const download = await saved
      return { name: download.suggestedFilename(), bytes: await readFile(await download.path()) }
    }
    const csv = await save('CSV of Reward')
    expect(csv.name).toBe('Reward.csv')
    expect(csv.bytes.toString().split('\n')[0]).toBe('"step","Reward"')
    expect(csv.bytes.toString().trim().split('\n')).toHaveLength(JOBS + 1)
    const png = await save('PNG of Reward')
    expect(png.bytes.subarray(1, 4).toString()).toBe('PNG')
    await page.getByRole('button', { name: 'log scale of Reward' }).first().click()
    await page.waitForURL('**lg=Reward')
    expect(await problems()).toEqual([])
    await context.close()
  })
})
