/**
 * Names of the base models that come with this package, apart from what makes and checks them.
 */

/** The small useful one (`spark.ts`). */
export const SPARK_NAME = 'trainyard/spark'

/** The one of random weights (`tiny-random.ts`). */
export const TINY_RANDOM_NAME = 'trainyard/tiny-random'
