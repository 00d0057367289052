/**
 * Texts of `trainyard help <topic>`, made from the same tables the program runs on.
 */
import { settingKeys, settings } from '#cli/config/schema.js'
import { exitCodes } from '../terminal/exit-codes.js'

/** Topics by name; undefined for an unknown one. */
export const topics: Readonly<Record<string, () => string>> = {
  environment: renderEnvironment,
  'exit-codes': renderExitCodes,
  formats: () => FORMATS,
  files: () => FILES,
  pages: () => PAGES,
}

function renderEnvironment(): string {
  const rows = settingKeys.map((key) => {
    const setting = settings[key]
    const names = [setting.flag?.replace(/^-\w, /, ''), ...setting.env].filter((name) => name !== undefined)
    const unit = setting.unit === undefined ? '' : `, ${setting.unit}`
    return `  ${key}\n    ${setting.summary} (${setting.type}${unit})\n    ${names.join(', ') || 'file only'}\n`
  })
  return `Settings: a flag beats the environment, the environment the config file, the config file the default.
trainyard config list shows every value and where it comes from.

${rows.join('')}
NO_COLOR and FORCE_COLOR are honoured on a terminal.
`
}

function renderExitCodes(): string {
  const rows = Object.values(exitCodes).map((exit) => `  ${String(exit.code).padStart(3)}  ${exit.meaning}\n`)
  return `Exit codes of every command:\n\n${rows.join('')}`
}

const FORMATS = `Output on stdout is only what was asked for; progress, hints and errors go to stderr.

  on a terminal   aligned columns, relative times, short ids (--wide shows them in full)
  in a pipe       tab-separated, no header, ISO 8601 times, plain numbers
  --json          one JSON document, or JSON Lines for --watch, --follow and chat --stream; field names of the API
  -q, --quiet     ids only, one per line

A list is the API's envelope {"object":"list","data":[...],"first_id","last_id","has_more"}; an empty one has "data":[].
With --json an error is one line on stderr: {"error":{"type","code","message","param","hint","status","request_id"}}.
`

const FILES = `Trajectory groups (log, train rl): JSON Lines, one group per line,

  {"trajectories":[{"messages_and_choices":[...],"reward":1.0,"metrics":{},"metadata":{}}]}

or one JSON array of groups, or {"trajectory_groups":[...]}. Choices are copied from chat completions with their logprobs.

Supervised data (train sft): JSON Lines, one conversation per line,

  {"messages":[{"role":"user","content":"..."},{"role":"assistant","content":"..."}],"tools":[...]}

All assistant turns train, unless the line says otherwise: "loss_mask" is "all", "last_assistant", "none", or a list with true or
false for each message; a message with "weight": 0 never trains. "weight" of a line multiplies the loss of its tokens (2 counts it
as if it stood there twice). TRL's form is taken, too; of it the completion trains,

  {"prompt":"Say hello.","completion":"Hello!"}
  {"prompt":[{"role":"user","content":"..."}],"completion":[{"role":"assistant","content":"..."}]}

Texts become a user and an assistant message. Validation rows have the same forms.

Preferences (train dpo): JSON Lines, a prompt with the better and the worse answer per line,

  {"prompt":"Say hello.","chosen":"Hello! How are you?","rejected":"hi"}

or, with --loss-type kto, a single answer that is good or bad:

  {"prompt":"Say hello.","completion":"hi","label":false}

Prompts (rollout, eval): JSON Lines, or one plain prompt per line; "answer" is what the built-in rewards compare with,

  {"prompt":"2+2?","answer":"4"}
  {"messages":[{"role":"user","content":"2+2?"}],"answer":"4"}

Rows may come as JSON Lines, one JSON array, CSV (, or ;), TSV or Parquet, each plain or compressed with gzip. Columns are known by
their names (text and label, question and answer, instruction, input and output, chosen and rejected, messages), or you say them:
--map Frage=prompt,Antwort=completion.

Rows of other trainers (ShareGPT, Alpaca, HH-RLHF, KTO and others): trainyard data convert IN --out OUT --to sft, dpo or prompts.

A file named - is standard input.

  $XDG_CONFIG_HOME/trainyard/config.json   settings (mode 0600)
  $XDG_DATA_HOME/trainyard                 data of the local service, with its api-key file; --data-dir moves it
  $XDG_STATE_HOME/trainyard                which local servers run, so that the command line finds their key; what was
                                           typed in conversations (chat --no-history keeps none)
`

const PAGES = `Pages, as Markdown in src/docs of the package; a running service shows them at /docs (trainyard open):

start
  first-steps           install, a model that learns, its page
  own-task              from a file of yours to a trained model
  does-it-learn         what the numbers say, and what to do next
guides
  my-data               files, examples before rewards, a stronger model's answers
  rewards               checks, graders, judges; fewer answers to the same reward
  tools                 episodes of several turns with tools
  environments          tasks of reasoning-gym, OpenEnv and MCP servers, a file of your own
  preferences           pairs, answers called good or bad
  my-model              base models, adapters, taking a model elsewhere
  programs              TypeScript and Python
  moving-from-openai    fine-tuning jobs written for OpenAI's API
  page                  what a browser shows
  deploy                install, proxy, container, more machines, CI
  plugins               endpoints, settings and commands of your own
  trouble               when it does not learn, or does not run
reference
  api                   endpoints, and where they are a superset of the hosted service's
  commands              every command and setting
  how-training-works    from trajectories to a checkpoint
  graders               what each kind of grader computes
  training-loops        the Tinker client: a loop of your own, request by request
  recorded-rollouts     trajectories of any program, recorded below an address
  operations            data directory, network, limits, what happens when something fails
  more-machines         workers and engine nodes elsewhere
`
