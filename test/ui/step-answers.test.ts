/**
 * Answers beside the curve: moving along the steps, by mouse, keyboard and touch, shows what each step was taught with and what it says to
 * watched prompts; a click leads to the tokens of an answer and their numbers.
 */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

const JOBS = 4
const PROMPT = 'Is it late?'

let service: TestService
let browser: Browser
let token: string

/** The same two questions at each step, in an order that changes. */
function groupsOf(step: number): readonly object[] {
  const group = (asked: string, spread: number) => ({
    trajectories: [spread, 0].map((reward) => ({
      reward,
      metrics: { words: step + reward, language: 1 },
      messages_and_choices: [
        { role: 'user', content: asked },
        {
          index: 0,
          finish_reason: 'stop',
          message: { role: 'assistant', content: `${asked} step ${step}, reward ${reward}` },
          logprobs: {
            content: [121, 101].map((id) => ({ token: `token_id:${id}`, logprob: -1, bytes: [id], top_logprobs: [] })),
          },
        },
      ],
    })),
  })
  const both = [group('Is it warm?', 1), group(PROMPT, 0.5)]
  return step % 2 === 0 ? both : both.reverse()
}

describe.skipIf(CHROMIUM === null)('answers beside the curve', () => {
  beforeAll(async () => {
    service = await createTestService({ scripted: false })
    browser = await launchBrowser()
    token = (await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })).body.token
    const model = await service.createModel('learner')
    const probe = await service.json(`/v1/preview/models/${model}/probes`, {
      json: { messages: [{ role: 'user', content: 'I am sad today.' }] },
    })
    expect(probe.status).toBe(200)
    for (let step = 1; step <= JOBS; step += 1) {
      const { status, body } = await service.json<{ id: string }>('/v1/preview/training-jobs', {
        json: {
          model_id: model,
          trajectory_groups: groupsOf(step),
          experimental_config: { learning_rate: 1e-4 },
        },
      })
      expect(status, JSON.stringify(body)).toBe(200)
      expect((await service.waitForJob(body.id)).status).toBe('completed')
    }
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })
  const open = async (path = '/ui/models/tests/learner', width = 1280) => {
    const window = await openWindow(browser, service.url, { token, width, hasTouch: width < 640 })
    await window.page.goto(path)
    const panel = window.page.locator('.answers-of-step')
    await panel.locator('.said-here').first().waitFor()
    return { ...window, panel }
  }

  test('the mouse moves along the steps; a click keeps one, the next opens an answer at its first own token', async () => {
    const window = await open()
    const { context, page, panel, problems } = window
    await panel.getByText('Is it warm? step 4, reward 1').waitFor()
    await panel.getByRole('heading', { name: 'Watched' }).waitFor()
    await panel.getByText('I am sad today.').first().waitFor()
    await panel.getByLabel('Asked').selectOption(PROMPT)
    await panel.getByText(`${PROMPT} step 4, reward 0.5`).waitFor()
    const box = await page.locator('.u-over').first().boundingBox()
    if (box === null) throw new Error('no chart')
    // the same question at each step
    await page.mouse.move(box.x + 2, box.y + 30)
    await panel.getByText(`${PROMPT} step 1, reward 0.5`).waitFor()
    await page.mouse.move(box.x + box.width / 3, box.y + 30)
    await panel.getByText(`${PROMPT} step 2, reward 0.5`).waitFor()
    await page.mouse.click(box.x + box.width / 3, box.y + 30)
    await page.waitForURL(/at=2/)
    const answer = panel.getByText(`${PROMPT} step 2, reward 0.5`)
    await page.mouse.move(2, 2)
    await answer.waitFor()
    await expectSound(window, 'step-answers')
    await answer.click()
    const detail = page.getByRole('region', { name: 'The chosen token' })
    for (const name of ['Learner', 'Ratio', 'Advantage']) await detail.getByText(name, { exact: true }).waitFor()
    expect(await problems()).toEqual([])
    // the way back is the step that was read
    await page.goBack()
    await panel.getByRole('heading', { name: 'Step 2', exact: true }).waitFor()
    await answer.waitFor()
    await context.close()
  })

  test('arrows move along the steps, and so do the buttons of the panel', async () => {
    const { context, page, panel } = await open()
    await page
      .getByRole('slider', { name: /^Reward/ })
      .first()
      .focus()
    await page.keyboard.press('Home')
    await panel.getByText('step 1, reward 1').waitFor()
    await page.keyboard.press('ArrowRight')
    await panel.getByText('step 2, reward 1').waitFor()
    await panel.getByRole('button', { name: 'The step behind' }).click()
    await panel.getByText('step 3, reward 1').waitFor()
    await panel.getByRole('button', { name: 'newest: 4' }).click()
    await panel.getByText('step 4, reward 1').waitFor()
    expect(await panel.getByRole('button', { name: 'The step behind' }).isDisabled()).toBe(true)
    await context.close()
  })

  test('a tap on a phone shows the step right below the first curve', async () => {
    const { context, page, panel } = await open('/ui/models/tests/learner', 390)
    const over = page.locator('.u-over').first()
    await over.scrollIntoViewIfNeeded()
    const box = await over.boundingBox()
    if (box === null) throw new Error('no chart')
    await page.touchscreen.tap(box.x + 2, box.y + 30)
    await panel.getByText('step 1, reward 1').waitFor()
    const [first, beside, second] = await Promise.all(
      [page.locator('.chart').nth(0), panel, page.locator('.chart').nth(1)].map((each) => each.boundingBox()),
    )
    expect(beside?.y).toBeGreaterThan(first?.y ?? Number.NaN)
    expect(beside?.y).toBeLessThan(second?.y ?? Number.NaN)
    await context.close()
  })

  test('numbers of the reward that change, length, and how much was trained, are charts at first', async () => {
    const { context, page } = await open()
    const titles = await page.locator('.chart h3').allTextContents()
    expect(titles.slice(0, 4)).toEqual(['Reward', 'Words', 'Length of answers, tokens', 'Tokens trained'])
    // it is 1 at every step
    expect(titles).not.toContain('Language')
    await context.close()
  })
})
