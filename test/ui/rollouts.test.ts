/**
 * What a job trained on, in a real browser: sound in both themes and every width, from the job to a token by keyboard, filters in the
 * address, scores under another checkpoint, 64,000 tokens, and text that means harm.
 */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TrainingJob } from '#contract/wire/training-jobs.js'
import { createTestService, type TestService } from '../support/service/create-test-service.js'
import { until } from '../support/until.js'
import { CHROMIUM, launchBrowser, openWindow } from './browser.js'
import { expectSound } from './sound.js'

const ENVIRONMENT = 'reasoning-gym:letter_counting'
const HOSTILE = '<img src=x onerror=alert(1)><script>alert(2)</script>'

let service: TestService
let browser: Browser
let token: string
let jobId: string

function group(rewards: readonly number[], name: string) {
  return {
    trajectories: rewards.map((reward, i) => ({
      reward,
      metrics: { length: 3 + i },
      messages_and_choices: [
        { role: 'system', content: 'You answer with a question.' },
        { role: 'user', content: `${name} ${HOSTILE}` },
        {
          index: 0,
          finish_reason: i === 2 ? 'length' : 'stop',
          message: {
            role: 'assistant',
            content: i === 1 ? 'Oh no, I am sorry. [go](javascript:alert(3))' : 'Oh no, I am sorry. What happened?',
            ...(i === 0
              ? { tool_calls: [{ id: 'c', type: 'function', function: { name: HOSTILE, arguments: '{"a": 1}' } }] }
              : {}),
          },
          token_ids: [1, 2, 3],
          prompt_token_ids: [4, 5],
          logprobs: { content: [1, 2, 3].map((id) => ({ token: `token_id:${id}`, logprob: -1, top_logprobs: [] })) },
        },
      ],
    })),
  }
}

async function train(groups: readonly object[], tokens: number): Promise<string> {
  const modelId = await service.createModel(`learner ${tokens}`)
  const json = { model_id: modelId, trajectory_groups: groups, experimental_config: { stand_in: { steps: 1, tokens } } }
  const { status, body } = await service.json<TrainingJob>('/v1/preview/training-jobs', { json })
  expect(status, JSON.stringify(body)).toBe(200)
  expect((await service.waitForJob(body.id)).group_count).toBe(groups.length)
  return body.id
}

describe.skipIf(CHROMIUM === null)('the page of rollouts', () => {
  beforeAll(async () => {
    service = await createTestService()
    browser = await launchBrowser()
    const session = await service.json<{ token: string }>('/v1/preview/sessions', { json: { name: 'test' } })
    token = session.body.token
    jobId = await train(
      [
        group([0, 1, 0.25, 0], 'I am sad today.'),
        group([1, 1, 1], 'Many thanks for your help.'),
        {
          ...group([0.5, 0], 'I like cycling.'),
          metadata: { environment: ENVIRONMENT, task: `count the letters ${HOSTILE}` },
          exceptions: [
            { type: 'env_timeout', message: `step: no answer after 60 s ${HOSTILE}` },
            { type: 'env_timeout', message: 'reset: no answer after 60 s' },
            { type: 'reward_invalid', message: 'the reward is NaN' },
          ],
        },
      ],
      60,
    )
  })
  afterAll(async () => {
    await browser?.close()
    await service?.dispose()
  })

  const home = (): string => `http://127.0.0.1:${new URL(service.url).port}`
  const signedIn = () => openWindow(browser, home(), { token })
  const pages = (): readonly (readonly [string, string, string])[] => [
    ['job', `/ui/jobs/${jobId}`, 'text=Rollouts'],
    ['rollouts', `/ui/jobs/${jobId}/groups`, 'text=equal rewards'],
    ['group', `/ui/jobs/${jobId}/groups/0?diff=1&sort=reward`, 'mark'],
    ['failed', `/ui/jobs/${jobId}/groups/2`, 'text=no answer after 60 s'],
    ['trajectory', `/ui/jobs/${jobId}/groups/0/1?c=probability&at=9`, '[data-token="9"]'],
    ['trajectory-ratio', `/ui/jobs/${jobId}/groups/0/0?c=ratio&at=9`, '[data-token="9"]'],
    ['grader', `/ui/jobs/${jobId}/grader`, 'text=Reward it had'],
    ['trajectory-flat', `/ui/jobs/${jobId}/groups/1/0`, 'text=It did not train'],
  ]

  test('every page of it is sound in both themes and every width', async () => {
    const window = await signedIn()
    const { context, page } = window
    for (const [name, path, sign] of pages()) {
      await page.goto(path)
      await page.locator(sign).first().waitFor({ state: 'attached' })
      await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' })
      await expectSound(window, name)
      // text of models and data is text
      expect(await page.locator('main img, main script, main a[href^="javascript"]').count(), name).toBe(0)
    }
    await context.close()
  })

  test('environments, and rollouts that failed by kind, stand on the job, the list and the group', async () => {
    const { context, page, problems } = await signedIn()
    for (const path of [`/ui/jobs/${jobId}`, `/ui/jobs/${jobId}/groups`]) {
      await page.goto(path)
      const facts = page.locator('dl[aria-label=Episodes]')
      await facts.getByText(ENVIRONMENT).waitFor()
      const said = await facts.locator('div').allTextContents()
      expect(said, path).toEqual([
        `Environment${ENVIRONMENT} 1 group`,
        'Rollouts that failed3 of 12',
        'Env timeout2',
        'Reward invalid1',
      ])
    }
    await page.locator('tbody tr', { hasText: '3 failed' }).getByRole('link').click()
    await page.locator('.failed-rollout').first().waitFor()
    expect(await page.locator('main .figures').first().textContent()).toContain(`Environment${ENVIRONMENT}`)
    expect(await page.locator('.failed-rollout').allTextContents()).toEqual([
      `env_timeoutstep: no answer after 60 s ${HOSTILE}`,
      'env_timeoutreset: no answer after 60 s',
      'reward_invalidthe reward is NaN',
    ])
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('a reward is written and tried on the answers that were kept, beside those they had; faults are said', async () => {
    const { context, page, problems } = await signedIn()
    await page.goto(`/ui/jobs/${jobId}`)
    await page.getByRole('link', { name: 'Try a reward' }).click()
    await page.waitForURL('**/grader')
    await page.getByLabel('Answers to').selectOption('0')
    const cells = async (n: number) => (await page.locator('tbody tr').nth(n).locator('td').allTextContents()).slice(1)
    await page.getByRole('button', { name: 'Score 4 answers' }).click()
    // a question mark is what the first example asks for
    await page.locator('tbody tr').nth(3).getByText('no errors').waitFor()
    expect([await cells(0), await cells(1)]).toEqual([
      ['0', '1', 'no errors'],
      ['1', '0', 'no errors'],
    ])
    // what templates do not find is an error of the answer, with its place
    await page.getByLabel('Begin with').selectOption({ label: 'is near to a field of the row' })
    await page.getByRole('button', { name: 'Score 4 answers' }).click()
    await page.locator('tbody tr').nth(3).getByText('item.answer').waitFor()
    expect((await cells(0))[2]).toContain('near: invalid variable error')
    await page.getByLabel('The row, as item').fill('{"answer": "Oh no, I am sorry. What happened?"}')
    await page.getByRole('button', { name: 'Score 4 answers' }).click()
    await page.locator('tbody tr').nth(3).getByText('no errors').waitFor()
    expect((await cells(0)).slice(0, 2)).toEqual(['0', '1'])
    await page.getByLabel('The grader').fill('{"type": "sum"}')
    await page.getByRole('button', { name: 'Score 4 answers' }).click()
    await page.getByRole('alert').getByText('sum').first().waitFor()
    await page.getByLabel('The grader').fill('{')
    expect(await page.getByRole('button', { name: 'Score 4 answers' }).isDisabled()).toBe(true)
    // the browser names the refusal, too
    expect((await problems()).filter((text) => !text.includes('status of 400'))).toEqual([])
    await context.close()
  })

  test('from the job to a token and back by keyboard alone; the address says where', async () => {
    const { context, page, problems } = await signedIn()
    await page.goto(`/ui/jobs/${jobId}`)
    await page.getByRole('link', { name: 'Rollouts' }).focus()
    await page.keyboard.press('Enter')
    await page.waitForURL('**/groups')
    await page.getByRole('link', { name: /^0 · / }).focus()
    await page.keyboard.press('Enter')
    await page.waitForURL('**/groups/0')
    await page.getByRole('link', { name: 'Trajectory 1' }).focus()
    await page.keyboard.press('Enter')
    // the first that was sampled, once the tokens have come
    const chosen = page.locator('[data-token][tabindex="0"]:not([data-token="0"])')
    await chosen.focus()
    const first = Number(await chosen.getAttribute('data-token'))
    for (let i = 0; i < 7; i++) await page.keyboard.press('ArrowRight')
    await page.waitForURL(`**/groups/0/1?at=${first + 7}`)
    await page.waitForFunction(`document.activeElement.dataset.token === '${first + 7}'`)
    await page.getByRole('heading', { name: new RegExp(`Token ${first + 7}\\b`) }).waitFor()
    await page.keyboard.press('j')
    await page.waitForURL('**/groups/0/2')
    await page.keyboard.press('k')
    await page.waitForURL('**/groups/0/1')
    await page.keyboard.press('u')
    await page.waitForURL('**/groups/0')
    await page.goBack()
    await page.waitForURL('**/groups/0/1')
    expect(await problems()).toEqual([])
    await context.close()
  })

  test('a bar of the rewards and the lists are filters that the address keeps', async () => {
    const { context, page } = await signedIn()
    await page.goto(`/ui/jobs/${jobId}/groups`)
    await page.getByRole('button', { name: /^Reward 0.25/ }).click()
    await page.waitForURL('**/groups?min_reward=0.25&max_reward=0.25')
    await page.getByRole('link', { name: /^0 · / }).waitFor()
    await page.getByRole('link', { name: /^1 · / }).waitFor({ state: 'detached' })
    await page.reload()
    await page.getByRole('button', { name: 'Show all' }).click()
    await page.getByLabel(/^Show/).selectOption('false')
    await page.getByRole('link', { name: /^0 · / }).waitFor({ state: 'detached' })
    await page.getByRole('link', { name: /^1 · / }).waitFor()
    await context.close()
  })

  test('what the API says of a token is what is shown', async () => {
    const place = `/v1/preview/training-jobs/${jobId}/groups/0/trajectories/1`
    const { body } = await service.json<{ learner_logprob: number[]; ratio: number[] }>(`${place}/tokens`)
    const { context, page } = await signedIn()
    await page.goto(`/ui/jobs/${jobId}/groups/0/1?at=9`)
    const detail = page.getByRole('region', { name: 'The chosen token' })
    await detail.waitFor()
    // the part reads what the detail reads: they may come one after the other
    await page.locator('[data-token="9"]').waitFor()
    const shown = await detail.innerText()
    const learner = Math.abs(body.learner_logprob[9] ?? Number.NaN)
    expect(shown).toContain(`−${Number(learner.toFixed(learner >= 1 ? 2 : 3))}`)
    const clipped = body.ratio.filter((ratio) => ratio !== null && ratio > 5).length
    expect(clipped).toBeGreaterThan(0)
    expect(await page.locator('.token.clipped[data-token]').count()).toBe(clipped)
    await context.close()
  })

  test('tokens and scores of a part are asked for once, for the text and for the chosen token', async () => {
    const { context, page } = await signedIn()
    const asked: string[] = []
    page.on('request', (request) => {
      const name = /\/(tokens|scores)\?/.exec(request.url())?.[1]
      if (name !== undefined) asked.push(name)
    })
    await page.goto(`/ui/jobs/${jobId}/groups/0/1?at=9&under=0`)
    await page.locator('[data-token="9"]').waitFor()
    await page.getByRole('region', { name: 'The chosen token' }).getByText('Step 0').waitFor()
    await until(() => asked.includes('scores'), 'its scores are asked for')
    expect(asked.sort()).toEqual(['scores', 'tokens'])
    await context.close()
  })

  test('more groups that cannot be read: said with the hint, until they are asked for again', async () => {
    const many = await train(
      Array.from({ length: 101 }, (_, i) => group([0, 1], `prompt ${i}`)),
      4,
    )
    const { context, page } = await signedIn()
    let isBroken = true
    await page.route('**/groups?*after=*', async (route) => {
      if (!isBroken) return await route.continue()
      const body = JSON.stringify({ error: { message: 'the disk is full', hint: 'make room' } })
      await route.fulfill({ status: 500, contentType: 'application/json', body })
    })
    await page.goto(`/ui/jobs/${many}/groups`)
    const more = page.getByRole('button', { name: 'More groups' })
    await more.click()
    const alert = page.getByRole('alert').filter({ hasText: 'the disk is full' })
    await alert.getByText('make room').waitFor()
    isBroken = false
    await more.click()
    await page.getByRole('link', { name: /^100 · / }).waitFor()
    await alert.waitFor({ state: 'detached' })
    await context.close()
  })

  test('64,000 tokens: the first are there at once, the last when they are gone to, and few are in the page', async () => {
    const long = await train([group([0, 1], 'long')], 64_000)
    const { context, page, problems } = await signedIn()
    await page.goto(`/ui/jobs/${long}/groups/0/0`)
    await page.locator('[data-token="5"]').waitFor()
    await page.locator('[data-token="5"]').focus()
    await page.keyboard.press('End')
    await page.locator('[data-token="64003"]').waitFor()
    await until(
      async () => (await page.evaluate('document.activeElement.dataset.token')) === '64003' || null,
      'the last token has the focus',
    )
    // what was left is made a space again
    await until(async () => (await page.locator('[data-token]').count()) < 8000 || null, 'few tokens are in the page')
    expect(await problems()).toEqual([])
    await context.close()
  })
})
