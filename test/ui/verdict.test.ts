/**
 * "Does it learn?" is the page: what stands on every page of a model says it, and why not; what was found has buttons that do it.
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

async function evaluate(id: string, rewardOf: (prompt: number) => number): Promise<void> {
  const groups = loggedGroups(
    Array.from({ length: PROMPTS }, (_, i) => ({
      asked: `Question ${i}?`,
      answers: [[`an answer worth ${rewardOf(i)}`, rewardOf(i)] as const],
    })),
  )
  const { status } = await service.json(`/v1/preview/models/${id}/log`, {
    json: { split: 'val', trajectory_groups: groups },
  })
  expect(status).toBe(200)
}

/** A model with rewards of its prompts at the base model and at step 1. */
async function learn(name: string, was: (i: number) => number, is: (i: number) => number): Promise<void> {
  const id = await service.createModel(name)
  await evaluate(id, was)
  const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
    // every answer of a group is worth the same: it teaches nothing, which is found
    json: { model_id: id, trajectory_groups: [sampleGroup([0, 0]), sampleGroup([0, 1])] },
  })
  expect((await service.waitForJob(body.id)).status).toBe('completed')
  await evaluate(id, is)
}

describe.skipIf(CHROMIUM === null)('whether a model learns', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    await learn(
      'better',
      (i) => (i % 3) / 4,
      (i) => 0.5 + (i % 4) / 8,
    )
    await learn(
      'worse',
      () => 1,
      (i) => (i % 2) / 2,
    )
    await learn(
      'unsaid',
      (i) => i % 2,
      (i) => (i + 1) % 2,
    )
    await service.createModel('new')
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })
  const open = () => openWindow(browser, service.url, { token })

  test('is said on its page, by the interval of its evaluations, without a click', async () => {
    const { context, page, problems } = await open()
    for (const [name, word] of [
      ['better', 'Learns'],
      ['worse', 'Does not learn'],
      ['unsaid', 'Cannot be said yet'],
    ] as const) {
      await page.goto(`/ui/models/tests/${name}`)
      await page.locator('.verdict .word', { hasText: word }).waitFor()
      await page.locator('.verdict').getByText(`95%, ${PROMPTS} prompts`).waitFor()
    }
    await page.goto('/ui/models/tests/new')
    await page.getByText('No step yet').waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('stands on every page of it, with the way to the others', async () => {
    const window = await open()
    const { context, page } = window
    await page.goto('/ui/models/tests/better')
    await page.locator('canvas').first().waitFor()
    for (const tab of ['Evaluations', 'Watch', 'Marks', 'Checkpoints', 'Curves']) {
      await page.getByRole('navigation', { name: 'Pages of better' }).getByRole('link', { name: tab }).click()
      await page.locator('.tabs [aria-current]', { hasText: tab }).waitFor()
      await page.locator('.verdict .word', { hasText: 'Learns' }).waitFor()
      expect(await page.locator('h1').textContent()).toBe('better')
    }
    await page.locator('canvas').first().waitFor()
    await expectSound(window, 'verdict')
    await context.close()
  })

  test('what was found stands first, in full words, with buttons that do what it says', async () => {
    const { context, page, problems } = await open()
    await page.route('**/v1/preview/training-jobs?**', async (route) => {
      const response = await route.fetch()
      const body = (await response.json()) as { data: { warnings: string[]; resolved_config: object | null }[] }
      for (const job of body.data) {
        job.warnings = [
          '1.5% of answers earn something; show it good answers first (train sft on examples)',
          'lower learning_rate, and look at the data',
        ]
        job.resolved_config = { ...job.resolved_config, learning_rate: 1e-3 }
      }
      await route.fulfill({ response, json: body })
    })
    await page.goto('/ui/models/tests/worse')
    await page.getByRole('heading', { name: 'What was found' }).waitFor()
    await page.getByRole('link', { name: 'Lower the rate to 3e-4' }).click()
    await page.waitForURL('**/ui/train?**')
    expect(new URL(page.url()).searchParams.get('m')).toBe('tests/worse')
    expect(page.url()).toContain('0.0003')
    await page.goBack()
    await page.getByRole('link', { name: 'Train on good answers first' }).click()
    await page.waitForURL('**/ui/train?kind=sft**')
    expect(await problems()).toEqual([])
    await context.close()
  })
})
