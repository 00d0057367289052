/** Flags of `trainyard chat` that are about a conversation are refused where one answer is asked for. */
import { expect, test } from 'vitest'
import { runCli } from '../../../support/service/run-cli.js'
import { scriptedService } from '../../../support/service/scripted-service.js'

test.each(['--history', '--no-history'])('%s beside a prompt is refused', async (flag) => {
  const service = scriptedService({})
  const { stderr, exitCode } = await runCli(['chat', 'email-agent', 'hello', flag], { fetch: service.fetch })
  expect(stderr).toContain(`${flag} is about a conversation, and one answer keeps no history`)
  expect([exitCode, service.requests]).toEqual([2, []])
})
