/**
 * Three ways to begin, as prompts that a person chooses in the program that hosts the agent.
 */

interface Way {
  readonly name: string
  readonly description: string
  readonly text: (task: string, baseModel: string) => string
}

const DEFAULT_BASE = 'trainyard/spark'

const FIRST =
  'Write 16 to 64 held-out prompts that are never trained on and a grader for them; try the grader with check_grader on a right, a wrong ' +
  'and an empty answer. Measure the base model with evaluate. '
const LAST =
  'Measure again with the same rows; say mean and interval before and after, and whether they differ. Read the warnings of each job and ' +
  'do what they say. Write hypothesis and result with note_model.'

const WAYS: readonly Way[] = [
  {
    name: 'train_from_examples',
    description: 'Right answers are known, or can be written: show them, then measure',
    text: (task, base) =>
      `Train a model on examples. Task: ${task}. Base model: ${base}. ${FIRST}Upload 100 or more rows of examples with upload_file, ask ` +
      `train_on_examples with plan: true, then train with wait_seconds. ${LAST}`,
  },
  {
    name: 'train_from_rewards',
    description: 'An answer can be checked: let the model try, and reward what is right',
    text: (task, base) =>
      `Train a model by rewards. Task: ${task}. Base model: ${base}. ${FIRST}If its mean is 0, rewards have nothing to go by: show it some ` +
      `examples first with train_on_examples. Then train_with_grader; watch get_loop and loop_answers, for a grader may be fooled. ${LAST}`,
  },
  {
    name: 'improve_model',
    description: 'A model is there: find out where it fails, and mend that',
    text: (task, base) =>
      `Improve a model. What it should do: ${task}. The model: ${base}. Look at model_history and list_evaluations, then evaluate it on ` +
      `held-out rows and read its worst answers. Say what kind of fault is commonest and change one thing: rows for that fault, or ` +
      `preferences, or a better grader. Fork it with create_model (from_checkpoint), train the fork, and compare. ${LAST}`,
  },
]

export const listPrompts = () =>
  WAYS.map(({ name, description }) => ({
    name,
    description,
    arguments: [
      { name: 'task', description: 'What the model is to do, in a sentence', required: true },
      {
        name: 'base_model',
        description: `A base model, or a model to go on from; default ${DEFAULT_BASE}`,
        required: false,
      },
    ],
  }))

/** @returns null: there is none of that name */
export function promptOf(name: string, given: Readonly<Record<string, string>>) {
  const way = WAYS.find((each) => each.name === name)
  if (way === undefined) return null
  const text = way.text(given['task'] ?? '', given['base_model'] ?? DEFAULT_BASE)
  return {
    description: way.description,
    messages: [{ role: 'user' as const, content: { type: 'text' as const, text } }],
  }
}
