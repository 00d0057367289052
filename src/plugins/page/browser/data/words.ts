/**
 * What the page calls things that the API spells as identifiers: numbers, parts of the server, kinds, reasons. One table.
 * A name that is not in it is the user's own, or is new, and is spelled as words. Options keep their names, which one types:
 * they are code. Pure.
 */
const WORDS: Readonly<Record<string, string>> = {
  // metrics, by their whole key where the last part of it says too little
  'loss/train': 'Loss',
  'loss/val': 'Loss, validation',
  'rewards/margins': 'Margin of rewards',
  'rewards/accuracies': 'Accuracy',
  clipped_token_fraction: 'Clipped tokens, share',
  completion_tokens: 'Length of answers, tokens',
  exception_rate: 'Rollouts that failed, share',
  grader_errors: 'Errors of graders',
  importance_ratio_mean: 'Ratio, mean',
  importance_ratio_p99: 'Ratio, 99th percentile',
  grad_norm: 'Gradient norm',
  kl_div: 'KL, sampler to learner',
  policy_loss: 'Loss of the policy',
  step_num_gradient_steps: 'Gradient steps',
  step_num_groups_submitted: 'Groups sent',
  step_num_groups_trainable: 'Groups that train',
  step_num_scenarios: 'Prompts',
  step_num_trajectories: 'Trajectories',
  step_trainer_tokens: 'Tokens trained',
  steps_off_policy: 'Steps behind the learner',
  tokens_per_second: 'Tokens a second',
  update_kl: 'KL of the update',
  update_scale: 'Share of the update that was kept',
  // why something did not train
  zero_advantage: 'Advantage 0',
  single_trajectory: 'Alone in its group',
  equal_rewards: 'Equal rewards',
  reward_is_mean: 'Its reward is the mean',
  overlength: 'Too long',
  no_logprobs: 'No log-probabilities',
  masked_truncated: 'Cut off, and masked',
  greedy: 'Sampled at temperature 0',
  unknown_token_text: 'Unknown tokens',
  empty_completion: 'Empty answer',
  unsupported_exchange: 'Exchange without tokens',
  left_out_message: 'Message the template leaves out',
  unrenderable: 'The template refuses it',
  no_trainable_turn: 'Nothing to train on',
  // parts of a job's time
  io: 'Reading and writing',
  // parts of the server
  api: 'API',
  blob_store: 'Files on disk',
  cpu_queue: 'Training',
  gpu_queue: 'Answers',
  top_k: 'Top k',
  top_p: 'Top p',
}
/** First parts of a metric's key: of which answers it is. Those of training are meant where nothing is said. */
const SPLITS: Readonly<Record<string, string>> = {
  train: '',
  loss: '',
  data: '',
  val: 'validation',
  held_out: 'held out',
}
const SPREAD = '_std_dev'

/** `gradient_step` as `Gradient step`. */
export function wordsOf(name: string): string {
  const known = WORDS[name]
  if (known !== undefined) return known
  if (name.endsWith(SPREAD)) return `${wordsOf(name.slice(0, -SPREAD.length))}, spread`
  const words = name.replaceAll(/[_/]+/g, ' ').trim()
  return words.slice(0, 1).toUpperCase() + words.slice(1)
}

/** Within a sentence; what is short for something keeps its letters. */
export function lowerWordsOf(name: string): string {
  const words = wordsOf(name)
  return /^[A-Z]{2}/.test(words) ? words : words.slice(0, 1).toLowerCase() + words.slice(1)
}

/** `val/reward` as `Reward, validation`. */
export function metricWords(key: string): string {
  const parts = key.split('/')
  const name = parts.pop() ?? key
  const of = parts.map((part) => SPLITS[part] ?? lowerWordsOf(part)).filter((part) => part !== '')
  return WORDS[key] ?? [wordsOf(name), ...of].join(', ')
}
