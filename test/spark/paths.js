/**
 * Where the recipe keeps what it makes: under `.cache/spark`, which git ignores.
 */
import { join } from 'node:path'

export const SPARK_CACHE = join(import.meta.dirname, '..', '..', '.cache', 'spark')
/** Tokenizer, template and, once trained, weights: a Hugging Face directory. */
export const MODEL_DIRECTORY = join(SPARK_CACHE, 'model')
/** Packed training rows. */
export const MIXTURE_DIRECTORY = join(SPARK_CACHE, 'mixture')
/** What a training run leaves: state, log, best weights. */
export const RUN_DIRECTORY = join(SPARK_CACHE, 'run')
/** The second run, which begins with the weights of the first. */
export const SECOND_RUN_DIRECTORY = join(SPARK_CACHE, 'run-2')
