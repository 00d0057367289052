/**
 * How many models each base model has, counted as they come and go: a list of base models counted every model of the server each time.
 */
import { type Kysely, sql } from 'kysely'

/** Adds the table, counts what there is, and keeps counting: triggers see every insert and delete, also a cascade's. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable('model_counts')
    .addColumn('base_model', 'text', (c) => c.notNull())
    .addColumn('entity', 'text', (c) => c.notNull())
    .addColumn('project', 'text', (c) => c.notNull())
    .addColumn('count', 'integer', (c) => c.notNull())
    .addPrimaryKeyConstraint('model_counts_pk', ['base_model', 'entity', 'project'])
    .execute()
  await sql`insert into model_counts (base_model, entity, project, count)
    select base_model, entity, project, count(*) from models group by base_model, entity, project`.execute(db)
  await sql`create trigger models_counted after insert on models begin
    insert into model_counts (base_model, entity, project, count) values (new.base_model, new.entity, new.project, 1)
      on conflict (base_model, entity, project) do update set count = count + 1;
  end`.execute(db)
  await sql`create trigger models_uncounted after delete on models begin
    update model_counts set count = count - 1
      where base_model = old.base_model and entity = old.entity and project = old.project;
    delete from model_counts
      where base_model = old.base_model and entity = old.entity and project = old.project and count = 0;
  end`.execute(db)
}
