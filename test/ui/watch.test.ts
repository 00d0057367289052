/**
 * Watched prompts in a real browser: added, answered step by step, what changed marked.
 */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

const HOSTILE = '<img src=x onerror=alert(1)> I am sad today.'
let service: TestService
let browser: Browser
let token: string
let modelId: string
const session = async (scope: string) =>
  (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test', scope } })).body.token

async function train(reward: number): Promise<void> {
  const { body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
    json: { model_id: modelId, trajectory_groups: [sampleGroup([reward, 0])] },
  })
  await service.waitForJob(body.id)
}

describe.skipIf(CHROMIUM === null)('watched prompts', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    token = await session('admin')
    modelId = await service.createModel('learner')
    await train(1)
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })
  const open = (as = token) => openWindow(browser, `http://127.0.0.1:${new URL(service.url).port}`, { token: as })

  test('are added, and answered by every step beside the base model, with what differs marked', async () => {
    const window = await open()
    const { context, page, problems } = window
    await page.goto('/ui/models/tests/learner')
    await page.getByRole('link', { name: 'Watch', exact: true }).click()
    await page.getByText('No prompt is watched').waitFor()
    await expectSound(window, 'watch-none')
    await page.getByLabel('Prompt', { exact: true }).fill(HOSTILE)
    await page.getByRole('button', { name: 'Watch it' }).click()
    const card = page.locator('.probe').first()
    const [base, step] = [card.locator('.side').nth(0), card.locator('.side').nth(1)]
    // without a reload: the page is told
    await base.getByText(`base:${HOSTILE}`).waitFor()
    await step.getByText('step 1 ·').waitFor()
    expect(await step.locator('mark').count()).toBeGreaterThan(0)
    expect(await base.locator('mark').count()).toBe(0)
    await train(2)
    await step.getByText('step 2 ·').waitFor()
    await card.getByText('All steps').click()
    await card.locator('.history > li').nth(2).waitFor()
    expect(await card.locator('.history > li > p:first-child').allTextContents()).toEqual([
      'step 2',
      'step 1',
      'base model',
    ])
    await expectSound(window, 'watch')
    // the slider is the browser's own: arrows move it
    await page.getByRole('slider', { name: 'Step' }).press('ArrowLeft')
    await step.getByText('step 1 ·').waitFor()
    expect(page.url()).toContain('at=1')
    await page.getByLabel('Beside').selectOption('before')
    await page.getByRole('slider', { name: 'Step' }).press('ArrowRight')
    await base.getByText('step 1 ·').waitFor()
    await step.getByText('step 2 ·').waitFor()
    await page.reload()
    await base.getByText('step 1 ·').waitFor()
    await card.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('button', { name: 'Delete the prompt', exact: true }).click()
    await page.getByText('No prompt is watched').waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('of a step that nobody asked are asked by a button; whoever may only read cannot', async () => {
    await train(3)
    const { body } = await service.json<{ id: string }>(`/v1/preview/models/${modelId}/probes`, {
      json: { messages: [{ role: 'user', content: 'late' }] },
    })
    expect(body.id).toBeTruthy()
    const reader = await open(await session('read'))
    await reader.page.goto('/ui/models/tests/learner/watch?at=1')
    const refused = reader.page.getByRole('button', { name: 'Ask step 1' })
    await refused.waitFor()
    expect(await refused.isDisabled()).toBe(true)
    expect(await reader.problems()).toEqual([])
    await reader.context.close()
    const { context, page, problems } = await open()
    await page.goto('/ui/models/tests/learner/watch?at=1')
    await page.getByRole('button', { name: 'Ask step 1' }).click()
    await page.locator('.side').nth(1).getByText('step 1 ·').waitFor()
    expect(await problems()).toEqual([])
    await context.close()
  })
})
