/**
 * Base models that come with the package and need no file from the user: a small useful one, and one of random weights. What
 * makes or checks one is loaded where it is served.
 */
import { SPARK_NAME, TINY_RANDOM_NAME } from '#model/built-in/names.js'
import type { DataDir } from './storage/data-dir.js'

/** By name: makes sure the model is there and whole, and says where. */
export const BUILT_IN_MODELS = {
  [SPARK_NAME]: async () => {
    const { sparkDirectory, verifySpark } = await import('#model/built-in/spark.js')
    await verifySpark()
    return sparkDirectory()
  },
  [TINY_RANDOM_NAME]: async (dataDir: DataDir) =>
    (await import('#model/built-in/tiny-random.js')).ensureTinyRandomModel(dataDir.baseModelsPath),
}
export type BuiltInModel = keyof typeof BUILT_IN_MODELS

/** Served when no base model is given. */
export const DEFAULT_BASE_MODEL: BuiltInModel = SPARK_NAME

/** Whether `name` is a built-in base model's. */
export function isBuiltInModel(name: string): name is BuiltInModel {
  return Object.hasOwn(BUILT_IN_MODELS, name)
}
