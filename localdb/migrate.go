package localdb

import (
	"database/sql"
	"errors"
	"fmt"
)

// parts holds how many of its steps each part of the database has behind it.
var parts = []string{`CREATE TABLE IF NOT EXISTS parts (name TEXT PRIMARY KEY, steps INTEGER NOT NULL) WITHOUT ROWID, STRICT`}

// Migrate brings the tables of a part to where all steps lead: statements that are run once and in order,
// and never changed afterwards, only followed by others. ErrNewer: more steps were taken than are known.
func (d *DB) Migrate(part string, steps []string) error {
	if err := d.migrate(part, steps); err != nil {
		return d.fail("tables of "+part, err)
	}
	return nil
}

func (d *DB) migrate(part string, steps []string) error {
	return d.inTransaction(func(tx *sql.Tx) error {
		taken, err := taken(tx, part)
		if err != nil {
			return err
		}
		if taken > len(steps) {
			return fmt.Errorf("%w (%s: step %d, known are %d)", ErrNewer, part, taken, len(steps))
		}
		if taken == len(steps) {
			return nil
		}
		for _, step := range steps[taken:] {
			if _, err := tx.Exec(step); err != nil {
				return err
			}
		}
		_, err = tx.Exec(`INSERT INTO parts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET steps = excluded.steps`, part, len(steps))
		return err
	})
}

// taken returns how many steps a part has behind it: none, in a file without any parts.
func taken(tx *sql.Tx, part string) (int, error) {
	var tables, steps int
	if err := tx.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE name = 'parts'`).Scan(&tables); err != nil || tables == 0 {
		return 0, err
	}
	err := tx.QueryRow(`SELECT steps FROM parts WHERE name = ?`, part).Scan(&steps)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return steps, err
}
