/**
 * Evaluations in a real browser: by step, and what changed between two of them.
 */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loggedGroups } from '../support/log-answers.js'
import { createTestService, sampleGroup, type TestService } from '../support/service/create-test-service.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

const HOSTILE = '<img src=x onerror=alert(1)>'
let service: TestService
let browser: Browser
let token: string
let modelId: string

describe.skipIf(CHROMIUM === null)('evaluations', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    modelId = await service.createModel('learner')
    await service.createModel('untouched')
    const log = (offset: number) =>
      service.json(`/v1/preview/models/${modelId}/log`, {
        json: {
          split: 'val',
          trajectory_groups: loggedGroups([
            {
              asked: `Is it ${HOSTILE} warm?`,
              answers: [[offset === 0 ? 'It is warm today.' : 'It is cold today.', 1 - offset]],
            },
            ...Array.from({ length: 24 }, (_, i) => ({
              asked: `Question ${i}`,
              answers: [[`answer ${i} at ${offset}`, i % 2 === 0 ? offset : 0.5] as const],
            })),
          ]),
        },
      })
    expect((await log(0)).status).toBe(200)
    const job = await service.json<{ id: string }>('/v1/preview/training-jobs', {
      json: { model_id: modelId, trajectory_groups: [sampleGroup()] },
    })
    await service.waitForJob(job.body.id)
    expect((await log(1)).status).toBe(200)
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })

  test('what got worse stands first, with what differs marked; outcome and page are in the address', async () => {
    const window = await openWindow(browser, `http://127.0.0.1:${new URL(service.url).port}`, { token })
    const { context, page, problems } = window
    await page.goto('/ui/models/tests/learner')
    await page.getByRole('link', { name: 'Evaluations' }).click()
    const first = page.locator('.pairs-list > li').first()
    await first.waitFor()
    expect(await first.textContent()).toContain(HOSTILE)
    expect(await first.locator('mark').allTextContents()).toEqual(['cold'])
    expect(await page.locator('p.verdict').textContent()).toContain('0.28 → 0.72 at 25 prompts')
    await expectSound(window, 'evaluations')
    await page.getByLabel('12 better').check()
    await page.getByRole('button', { name: 'More' }).waitFor({ state: 'detached' })
    await page.locator('.pairs-list > li').nth(11).waitFor()
    expect(await page.locator('.pairs-list > li').count()).toBe(12)
    expect(page.url()).toContain('only=better')
    await page.reload()
    await page.locator('.pairs-list > li').nth(11).waitFor()
    // the other way round what was better is worse
    await page.getByLabel('From step').selectOption('1')
    await page.getByText('choose another one').waitFor()
    await page.getByLabel('To step').selectOption('0')
    await page.getByText('12 worse').waitFor()
    expect(await problems()).toEqual([])
    // what is logged meanwhile counts without a reload
    await service.json(`/v1/preview/models/${modelId}/log`, {
      json: { split: 'val', trajectory_groups: loggedGroups([{ asked: 'Question 0', answers: [['one more', -3]] }]) },
    })
    await page.getByRole('row', { name: /^1 / }).getByText('26').first().waitFor()
    await page.getByText('11 worse').waitFor()
    await page.goto('/ui/models/tests/untouched/evaluations')
    await page.getByText('Nothing was logged yet').waitFor()
    await expectSound(window, 'evaluations-none')
    await context.close()
  })
})
