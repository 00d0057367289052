/**
 * The list of models as a list of runs: a note and tags written on a model's page, found by search, columns of numbers and of options that
 * differ, groups, and rows that are hidden; all of it in the address. A loop of many jobs is one row of Jobs.
 */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

let service: TestService
let browser: Browser
let token: string

async function learn(name: string, jobs: number, learningRate: number): Promise<void> {
  const id = await service.createModel(name)
  for (let i = 0; i < jobs; i += 1) {
    const { status, body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
      json: {
        model_id: id,
        trajectory_groups: [sampleGroup([0, (i + 1) / 10])],
        experimental_config: { learning_rate: learningRate },
      },
    })
    expect(status, JSON.stringify(body)).toBe(200)
    expect((await service.waitForJob(body.id)).status).toBe('completed')
  }
}

describe.skipIf(CHROMIUM === null)('models as runs', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    await learn('slow', 4, 1e-4)
    await learn('quick', 1, 1e-3)
    await service.createModel('untouched')
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })
  const open = () => openWindow(browser, service.url, { token })

  test('a note is written on the page of a model, stands in the list, and is found', async () => {
    const { context, page, problems } = await open()
    await page.goto('/ui/models/tests/slow')
    await page.getByRole('button', { name: 'Describe and tag it…' }).click()
    const form = page.getByRole('dialog', { name: 'Note on slow' })
    await form.getByLabel('Description').fill('Asks back <img src=x onerror=alert(1)>')
    await form.getByLabel('Tags, separated by commas').fill('best, v2,')
    await form.getByRole('button', { name: 'Save' }).click()
    await page.locator('.note-of-model .tag', { hasText: 'v2' }).waitFor()
    await page.goto('/ui/')
    const row = page.locator('tbody tr', { has: page.getByRole('link', { name: 'slow' }) })
    await row.locator('.tag', { hasText: 'best' }).waitFor()
    await row.getByText('Asks back <img').waitFor()
    await page.getByLabel('Search').fill('asks BACK')
    await page.getByRole('link', { name: 'quick' }).waitFor({ state: 'detached' })
    await row.waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('numbers and options that differ are columns, models stand in groups, and some are hidden', async () => {
    const window = await open()
    const { context, page, problems } = window
    await page.goto('/ui/')
    await page.locator('summary', { hasText: 'Columns' }).click()
    await page.getByRole('checkbox', { name: 'Options that differ' }).check()
    await page.getByRole('checkbox', { name: 'Reward', exact: true }).check()
    await page.waitForURL(/options=1&c=train%?2?F?\/?reward/)
    await page.locator('summary', { hasText: 'Columns' }).click()
    const head = page.locator('thead')
    await head.getByText('Reward', { exact: true }).waitFor()
    await head.getByText('learning_rate').waitFor()
    // what is the same in all is no column
    expect(await head.getByText('adam_beta1').count()).toBe(0)
    await page.getByLabel('Group by').selectOption('learning_rate')
    const groups = page.locator('.group-of-rows')
    await groups.nth(2).waitFor()
    expect((await groups.allTextContents()).map((text) => text.replaceAll(/\s+/g, ' '))).toEqual(
      expect.arrayContaining([expect.stringContaining('learning_rate 0.001 1 model')]),
    )
    await expectSound(window, 'models-grouped')
    // a row leads to its model, where it is clicked beside everything else
    await page.locator('tbody tr', { hasText: 'untouched' }).locator('td[data-label=Step]').click()
    await page.waitForURL('**/ui/models/tests/untouched')
    await page.goBack()
    await page.getByRole('checkbox', { name: 'Choose quick' }).check()
    await page.getByRole('button', { name: 'Hide' }).click()
    await page.getByRole('link', { name: 'quick' }).waitFor({ state: 'detached' })
    await page.reload()
    await page.getByRole('link', { name: 'slow' }).waitFor()
    expect(await page.getByRole('link', { name: 'quick' }).count()).toBe(0)
    await page.getByRole('button', { name: 'Show 1 hidden' }).click()
    await page.getByRole('link', { name: 'quick' }).waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('a model is deleted on its page, once that was said', async () => {
    const id = await service.createModel('short-lived')
    const { context, page, problems } = await open()
    await page.goto('/ui/models/tests/short-lived')
    await page.getByRole('button', { name: 'Remove the model…' }).click()
    const question = page.getByRole('dialog', { name: 'Delete short-lived?' })
    await question.getByRole('button', { name: 'Delete the model' }).click()
    await page.waitForURL('**/ui/')
    await page.getByRole('link', { name: 'slow' }).waitFor()
    expect((await service.fetch(`/v1/preview/models/${id}`)).status).toBe(404)
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('a loop of jobs is one row, which leads to each of them', async () => {
    const { context, page, problems } = await open()
    await page.goto('/ui/jobs')
    const loop = page.locator('tbody tr', { hasText: '4 jobs' })
    await loop.waitFor()
    expect(await page.locator('tbody tr').count()).toBe(2)
    await loop.getByRole('link', { name: 'rl → step 1 to 4' }).click()
    await page.locator('tbody tr').nth(3).waitFor()
    await page.getByRole('link', { name: 'rl → step 2', exact: true }).waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })
})
