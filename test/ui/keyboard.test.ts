/**
 * The whole walk by keyboard alone: from signing in to the settings, every stop reached by Tab, its focus seen, and no page that holds
 * the focus for ever.
 */
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'

/** Stops of the longest page: its tokens are one. */
const MOST_STOPS = 150

let service: TestService
let browser: Browser

const member = (reward: number) => ({
  reward,
  messages_and_choices: [
    { role: 'user', content: 'I am sad today.' },
    {
      index: 0,
      finish_reason: 'stop',
      message: { role: 'assistant', content: 'Oh no.' },
      token_ids: [1, 2, 3],
      prompt_token_ids: [4, 5],
      logprobs: { content: [1, 2, 3].map((id) => ({ token: `token_id:${id}`, logprob: -1, top_logprobs: [] })) },
    },
  ],
})

/** What has the focus: its name, and whether that is seen. */
interface Stop {
  readonly tag: string
  readonly text: string
  readonly isSeen: boolean
}

const STOP = `(() => {
  const element = document.activeElement
  if (element === null || element === document.body) return { tag: 'BODY', text: '', isSeen: true }
  const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element)
  const box = element.getBoundingClientRect()
  const isThere = box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight
  const label = element.getAttribute('aria-label') ?? ''
  return {
    tag: element.tagName,
    text: (label + ' ' + element.textContent).trim(),
    isSeen: isThere && ((outlineStyle !== 'none' && outlineWidth !== '0px') || boxShadow !== 'none'),
  }
})()`

/** Tabs until what has the focus fits; each stop on the way must be seen. */
async function tabTo(page: Page, what: RegExp | string, tag?: string): Promise<void> {
  const passed: string[] = []
  for (let i = 0; i < MOST_STOPS; i += 1) {
    await page.keyboard.press('Tab')
    const { tag: found, text, isSeen } = await page.evaluate<Stop>(STOP)
    expect(isSeen, `focus is not seen on ${found} "${text.slice(0, 80)}" of ${page.url()}`).toBe(true)
    passed.push(`${found} ${text.slice(0, 40)}`)
    const isText = typeof what === 'string' ? text === what : what.test(text)
    if (isText && (tag === undefined || found === tag)) return
  }
  throw new Error(`${String(what)} is not reached by Tab on ${page.url()}:\n${passed.join('\n')}`)
}

/** Tabs through all of a page: the focus leaves it at its end. */
async function leave(page: Page): Promise<void> {
  for (let i = 0; i < MOST_STOPS; i += 1) {
    await page.keyboard.press('Tab')
    const { tag, text, isSeen } = await page.evaluate<Stop>(STOP)
    expect(isSeen, `focus is not seen on ${tag} "${text.slice(0, 80)}" of ${page.url()}`).toBe(true)
    if (tag === 'BODY') return
  }
  throw new Error(`the focus does not leave ${page.url()}`)
}

describe.skipIf(CHROMIUM === null)('by keyboard alone', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    const modelId = await service.createModel('learner')
    const job = await service.json<{ id: string }>('/v1/preview/training-jobs', {
      json: {
        model_id: modelId,
        trajectory_groups: [{ trajectories: [member(0), member(1)] }],
        experimental_config: { stand_in: { steps: 2, tokens: 20 } },
      },
    })
    await service.waitForJob(job.body.id)
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })

  test('sign in, models, model, job, rollouts, group, trajectory, a token, play, train, settings', async () => {
    const { context, page, problems } = await openWindow(browser, `http://127.0.0.1:${new URL(service.url).port}`)
    const settled = () => page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' })
    await page.goto('/ui/')
    await page.waitForURL('**/ui/sign-in?**')
    await tabTo(page, /.*/, 'INPUT')
    await page.keyboard.type(service.apiKey)
    await page.keyboard.press('Enter')
    await page.waitForURL('**/ui/')
    await page.getByRole('link', { name: 'learner' }).waitFor()
    await settled()

    await tabTo(page, 'learner', 'A')
    await page.keyboard.press('Enter')
    await page.locator('canvas').first().waitFor()
    await settled()
    await leave(page)
    await tabTo(page, '1', 'A')
    await page.keyboard.press('Enter')
    await page.waitForURL('**/ui/jobs/*')
    await page.locator('.log p', { hasText: 'ended: step' }).waitFor()
    await page.getByRole('link', { name: 'Rollouts' }).waitFor()
    await leave(page)
    await tabTo(page, 'Rollouts', 'A')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: /^0 · / }).waitFor()
    await tabTo(page, /^0 · /, 'A')
    await page.keyboard.press('Enter')
    await page.getByRole('link', { name: 'Trajectory 1' }).waitFor()
    await leave(page)
    await tabTo(page, /Trajectory 1/, 'A')
    await page.keyboard.press('Enter')
    await page.locator('[data-token="3"]').waitFor()
    await leave(page)
    // the tokens are one stop: arrows go on from there
    await until(async () => {
      await page.keyboard.press('Tab')
      return page.evaluate<boolean>('document.activeElement.dataset.token !== undefined')
    }, 'a token has the focus')
    // the first that was sampled, not one that was given
    const first = await page.evaluate<number>('Number(document.activeElement.dataset.token)')
    expect(first).toBeGreaterThan(0)
    await page.keyboard.press('ArrowRight')
    await page.waitForURL(`**at=${first + 1}*`)
    await until(
      () => page.evaluate<boolean>(`document.activeElement.dataset.token === "${first + 1}"`),
      'the next token',
    )
    expect((await page.evaluate<Stop>(STOP)).isSeen).toBe(true)
    await page.keyboard.press('Tab')
    expect(await page.evaluate<boolean>('document.activeElement.dataset.token === undefined')).toBe(true)

    await tabTo(page, 'Play', 'A')
    await page.keyboard.press('Enter')
    await page.locator('#message').waitFor()
    await leave(page)
    await tabTo(page, /.*/, 'TEXTAREA')
    while (!(await page.evaluate<boolean>('document.activeElement.id === "message"')))
      await tabTo(page, /.*/, 'TEXTAREA')
    await page.keyboard.type('Hello there')
    await page.keyboard.press('Control+Enter')
    await page.locator('.answer[aria-busy=false]').waitFor()

    await tabTo(page, 'Train', 'A')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Show the plan' }).waitFor()
    await settled()
    await leave(page)
    await tabTo(page, 'Settings', 'A')
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Create a key' }).waitFor()
    await settled()
    await leave(page)
    expect(await problems()).toEqual([])
    await context.close()
  })
})
