/**
 * The engine that computes in this process: precision chosen, weights prepared, sessions loaded.
 */

import { hasFastIntegerProducts, withIntegerProducts } from '#inference/engine/runner/integer-weights.js'
import { type DecoderConfig, parameterCount } from '#model/architectures/decoder-config.js'
import { type Precision, type PreparedModel, prepareBaseModel } from '#model/architectures/prepare.js'
import type { TextModel } from '#model/text/text-model.js'
import { engineThreadsFor, threadsBesideJob } from '#numerics/runtime/default-threads.js'
import { onDevice, type Runtime } from '#numerics/runtime/runtime.js'
import { createEngine, type Engine } from '../engine/engine.js'
import type { ThreadsChange } from '../engine/scheduling/core-sharing.js'
import type { IdleSteps } from '../engine/scheduling/kept-memory.js'
import { choosePrecision } from './choose-precision.js'
import type { LoadCommand, LoadedEvent } from './protocol.js'

/**
 * The weights an engine host serves: prepared in the wanted precision, int8 in the kind that suits the machine.
 */
// Ordinary text that shows which channels of a model grow large: prose, dialogue, code, data and other languages, some hundred
// tokens of it. Activation scales of int8 serving are measured on it once per model.

/** About a thousand tokens, made up for this purpose. */
export const CALIBRATION_TEXT = `The harbour was quiet when the first boats came in. Two men carried crates of fish up the
stone steps, and a woman with a notebook wrote down what each crate weighed: 41 kg, 38.5 kg, 44 kg. "That makes a good week," she
said, and the older man nodded without looking up. Behind them the sun rose over the roofs, and somewhere a dog began to bark.

Photosynthesis turns light into chemical energy. In the leaves of a plant, chlorophyll absorbs mostly red and blue light; the energy
splits water into oxygen, protons and electrons. The Calvin cycle then uses what was stored to bind carbon dioxide into sugar. About
half of the oxygen in the air comes from organisms in the sea that are too small to be seen.

User: My program says "index out of range" but only for the last row. What could be wrong?
Assistant: Most likely the loop runs one step too far. If a list has n items, its valid positions are 0 to n - 1. Check whether the
condition is i <= n where it should be i < n. If you post the loop, I can point to the line.

def mean(values):
    """Arithmetic mean of a non-empty list."""
    if not values:
        raise ValueError("mean of nothing")
    total = 0.0
    for value in values:
        total += value
    return total / len(values)

{"order": 1187, "customer": {"name": "R. Okafor", "city": "Leeds"}, "items": [{"sku": "A-204", "count": 3, "price": 12.5},
{"sku": "B-031", "count": 1, "price": 80}], "paid": true, "note": null}

Solve 3x + 7 = 22. Subtract 7 from both sides: 3x = 15. Divide by 3: x = 5. Check: 3 * 5 + 7 = 22, which is right.

The committee met on Tuesday, 14 March, to discuss the new library. Three proposals were on the table. The first would renovate the
old building at a cost of 2.4 million; the second would move the collection to the school; the third, which the mayor preferred,
would build a new hall beside the station. After two hours of argument nobody had changed their mind, so the vote was postponed.

SELECT city, COUNT(*) AS orders FROM sales WHERE year = 2021 GROUP BY city HAVING COUNT(*) > 10 ORDER BY orders DESC;

Le train de huit heures part du quai numéro quatre. Der Schlüssel liegt unter der Matte, hinter dem Blumentopf. El médico dijo que
no era grave y que bastaba con descansar unos días.

Recipe: melt 50 g of butter, add two chopped onions and cook them slowly until they are soft. Stir in a spoon of flour, then a litre
of stock. Simmer for twenty minutes, season with salt, pepper and a little nutmeg, and serve with toasted bread.

Once upon a time there was a clockmaker who could not sleep. Every night he heard one clock in his shop that ticked faster than the
others, but whenever he lit the lamp to look for it, all of them agreed. In the end he stopped searching, sat down among them, and
listened; and because he was listening, he finally noticed that the sound came from the watch in his own pocket.

- Install the package and run the setup script.
- Open the settings page, choose a language, and save.
- If something fails, read the last lines of the log first: they usually name the file.
`

/**
 * Makes sure the weights are prepared; takes seconds to minutes the first time.
 *
 * @throws {WeightsError} if the source cannot be read or does not fit its configuration
 */
async function prepareWeights(
  command: LoadCommand,
  options: { readonly precision: Precision; readonly textModel: TextModel; readonly runtime: Runtime },
): Promise<PreparedModel> {
  const { sourcePath, preparedDir, threads } = command
  const { precision, textModel, runtime } = options
  if (precision !== 'int8' || !(await hasFastIntegerProducts(runtime, threads))) {
    return await prepareBaseModel(sourcePath, preparedDir, [precision])
  }
  const prepared = await prepareBaseModel(sourcePath, preparedDir, ['f32'])
  const calibrationIds = textModel.tokenizer.encode(CALIBRATION_TEXT)
  return await withIntegerProducts(prepared, { runtime, threads, calibrationIds })
}

export interface LocalEngine {
  readonly engine: Engine
  /** What is told of how it serves. */
  readonly facts: Pick<
    LoadedEvent,
    'weightsDigest' | 'precision' | 'precisionReason' | 'int8Speedup' | 'threads' | 'threadsBesideJob' | 'device'
  >
}

export interface LocalEngineParts {
  readonly config: DecoderConfig
  readonly textModel: TextModel
  readonly runtime: Runtime
  readonly onThreadsChange: (change: ThreadsChange) => void
  readonly idleSteps?: IdleSteps
  /** It has given back what it can. */
  readonly onRested?: () => void
}

/** @throws {AppError} as loading has it */
export async function openLocalEngine(command: LoadCommand, parts: LocalEngineParts): Promise<LocalEngine> {
  const { config, textModel, onThreadsChange, idleSteps, onRested } = parts
  const { device } = command
  const runtime = onDevice(parts.runtime, device?.name ?? 'cpu')
  const threads = engineThreadsFor(parameterCount(config), command.threads)
  // a second session would hold the weights a second time on a device, and compute no less
  const fewThreads = device === undefined ? threadsBesideJob(parameterCount(config), command.threads) : null
  const choice = await choosePrecision({ ...command, threads }, { config, runtime })
  const { precision } = choice
  const prepared = await prepareWeights({ ...command, threads }, { precision, textModel, runtime })
  const engine = await createEngine({
    runtime,
    prepared,
    precision,
    threads,
    threadsBesideJob: fewThreads,
    onThreadsChange,
    ...(idleSteps === undefined ? {} : { idleSteps }),
    ...(onRested === undefined ? {} : { onRested }),
    maxContextLength: command.maxContextLength,
    maxConcurrentSequences: command.maxConcurrentSequences,
    speculation: command.speculation,
    ...(command.kvCacheBytes === null ? {} : { kvCacheBytes: command.kvCacheBytes }),
    eosTokenIds: textModel.eosTokenIds,
    // The server counts what is on its way here and refuses what exceeds its setting: one limit, not two.
    maxWaiting: Number.POSITIVE_INFINITY,
  })
  return {
    engine,
    facts: {
      weightsDigest: prepared.digest,
      precision,
      precisionReason: choice.reason,
      int8Speedup: choice.int8Speedup,
      threads,
      threadsBesideJob: fewThreads,
      ...(device === undefined ? {} : { device }),
    },
  }
}
