// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package revisions

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spokewire/sdk-go/rsync/store"
)

// Hold records that an application was rolled back, so that its controller does not roll out the
// rejected source again. The manager only stores holds: while a hold exists and the source is still
// the rejected one, the controller makes the content from the source of the hold, and sets it with
// the revision of the hold.
type Hold struct {
	Revision int `json:"revision"`
	// Rejected identifies the source that was rolled back, for example by its hash.
	Rejected string `json:"rejected"`
	// Source is the source of the revision, which may be deleted before the hold ends.
	Source json.RawMessage `json:"source"`
}

func (m *Manager) holds() string { return m.options.Prefix + "hold/" }

// Hold stores a hold of an application, in place of an earlier one.
func (m *Manager) Hold(ctx context.Context, application string, h Hold) error {
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("encode the hold of the application %s: %w", application, err)
	}
	_, err = m.store.Txn(ctx, nil, []store.Op{store.Put(m.holds()+application+"/", data)})
	return err
}

// Holds returns all holds, by application.
func (m *Manager) Holds(ctx context.Context) (map[string]Hold, error) {
	result, err := m.store.Range(ctx, m.holds())
	if err != nil {
		return nil, err
	}
	out := map[string]Hold{}
	for _, kv := range result.KVs {
		var h Hold
		if err := json.Unmarshal(kv.Value, &h); err != nil {
			return nil, damaged(kv, err)
		}
		out[strings.TrimSuffix(strings.TrimPrefix(kv.Key, m.holds()), "/")] = h
	}
	return out, nil
}

// Release ends the holds of applications. The removal of an application does not.
func (m *Manager) Release(ctx context.Context, applications ...string) error {
	var ops []store.Op
	for _, name := range applications {
		ops = append(ops, store.Delete(m.holds()+name+"/"))
	}
	if len(ops) == 0 {
		return nil
	}
	_, err := m.store.Txn(ctx, nil, ops)
	return err
}

func damaged(kv store.KeyValue, err error) error {
	return fmt.Errorf("the value of %s is damaged: %w", kv.Key, err)
}
