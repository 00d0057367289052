/**
 * Logged evaluations for tests: one group a prompt, with the answers and rewards that a test says.
 */

/** @param prompts what was asked, the answers with their rewards, and the group's id if it has one */
export function loggedGroups(
  prompts: readonly {
    readonly asked: string
    readonly answers: readonly (readonly [text: string, reward: number])[]
    readonly id?: string
  }[],
): object[] {
  return prompts.map(({ asked, answers, id }) => ({
    ...(id === undefined ? {} : { metadata: { id } }),
    trajectories: answers.map(([text, reward]) => ({
      messages_and_choices: [
        { role: 'user', content: asked },
        { finish_reason: 'stop', index: 0, message: { role: 'assistant', content: text } },
      ],
      reward,
    })),
  }))
}
