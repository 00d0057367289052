/**
 * Runs side by side, two clicks from Models: curves over each other, only the options that differ, the same prompts with an
 * interval.
 */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loggedGroups } from '../support/log-answers.js'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

const PROMPTS = 12

let service: TestService
let browser: Browser
let token: string

async function learn(name: string, jobs: number, learningRate: number, rewardOf: (i: number) => number): Promise<void> {
  const id = await service.createModel(name)
  for (let i = 0; i < jobs; i += 1) {
    const { status, body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
      json: {
        model_id: id,
        trajectory_groups: [sampleGroup([0, (i + 1) / 10]), sampleGroup([0, learningRate])],
        experimental_config: { learning_rate: learningRate },
      },
    })
    expect(status, JSON.stringify(body)).toBe(200)
    expect((await service.waitForJob(body.id)).status).toBe('completed')
  }
  const groups = loggedGroups(
    Array.from({ length: PROMPTS }, (_, i) => ({
      asked: `Question ${i}?`,
      answers: [[`answer ${i}`, rewardOf(i)] as const],
    })),
  )
  const { status } = await service.json(`/v1/preview/models/${id}/log`, {
    json: { split: 'val', trajectory_groups: groups },
  })
  expect(status).toBe(200)
}

describe.skipIf(CHROMIUM === null)('runs side by side', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    await learn('slow', 4, 1e-4, (i) => (i % 3) / 8)
    await learn('quick', 2, 1e-3, (i) => 0.5 + (i % 4) / 8)
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })
  const open = () => openWindow(browser, service.url, { token })

  test('are two choices and a click from Models', async () => {
    const window = await open()
    const { context, page } = window
    await page.goto('/ui/')
    await page.getByLabel('Choose slow').check()
    await page.getByLabel('Choose quick').check()
    await page.getByRole('button', { name: 'Compare' }).click()
    await page.waitForURL(/\/ui\/compare\?m=tests/)
    await page.locator('canvas').first().waitFor()
    // every run is in every chart, with its value
    const legend = page
      .locator('.chart', { has: page.getByRole('heading', { name: 'Reward', exact: true }) })
      .locator('.legend-of-lines')
    expect(await legend.locator('li').count()).toBe(3)
    await legend.getByText('tests/slow').waitFor()
    await legend.getByText('tests/quick').waitFor()
    // only what differs, until all is asked for
    await page
      .getByRole('cell', { name: '0.001', exact: true })
      .or(page.getByRole('cell', { name: '1e−4' }))
      .first()
      .waitFor()
    const options = page.getByRole('region', { name: 'Options by run' }).locator('tbody tr')
    expect(await options.allTextContents()).toEqual([expect.stringContaining('learning_rate')])
    await page.getByLabel('Also those that are the same').check()
    await options.nth(5).waitFor()
    await page.getByLabel('Also those that are the same').uncheck()
    await page.locator('.verdict', { hasText: /(tests\/quick|tests\/slow) is better; the difference is/ }).waitFor()
    await page.locator('.verdict', { hasText: `the same ${PROMPTS} prompts` }).waitFor()
    await expectSound(window, 'compare')
    await context.close()
  })

  test('are hidden, taken away and added, each in the address', async () => {
    const { context, page, problems } = await open()
    await page.goto('/ui/compare?m=tests/slow&m=tests/quick')
    const lines = page.locator('.chart').first().locator('.legend-of-lines li')
    await lines.nth(2).waitFor()
    await page.getByLabel('Show tests/slow').uncheck()
    await page.waitForURL(/hide=tests/)
    await lines.first().waitFor({ state: 'detached' })
    await page.reload()
    await page.locator('canvas').first().waitFor()
    expect(await page.getByLabel('Show tests/slow').isChecked()).toBe(false)
    await page.getByLabel('Show tests/slow').check()
    await page.getByRole('button', { name: 'Take tests/quick away' }).click()
    await page.waitForURL((url) => !url.search.includes('quick'))
    await page.getByLabel('Add').fill('tests/quick')
    await page.keyboard.press('Enter')
    await lines.nth(2).waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })
})
