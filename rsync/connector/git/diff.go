// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

var _ connector.Differ = &conn{}

// Diff compares manifests with the files at the tip of the branch. It does not compare with the
// objects that agents apply.
func (c *conn) Diff(ctx context.Context, batch connector.DiffBatch) ([]connector.Change, error) {
	out := make([]connector.Change, 0, len(batch.Apply)+len(batch.Delete))
	w := &call{kind: comparing}
	var asked []int // indexes of out
	for i, r := range slices.Concat(batch.Apply, batch.Delete) {
		change := connector.Change{Object: r.Object, Kind: connector.ChangeKindNone}
		e := edit{object: r.Object, path: c.at.file(c.id, r.Object)}
		if i < len(batch.Apply) {
			if err := c.check(&r); err != nil {
				change.Kind, change.Message = connector.ChangeKindRefused, driver.Cause(err).Error()
				out = append(out, change)
				continue
			}
			e.blob = memory(plumbing.BlobObject, r.Manifest)
		}
		asked = append(asked, i)
		w.edits = append(w.edits, e)
		out = append(out, change)
	}
	w.found, w.files = make([]bool, len(w.edits)), make([]*object.TreeEntry, len(w.edits))
	if err := c.repository.do(ctx, w); err != nil {
		return nil, err
	}
	for n, i := range asked {
		w.compare(n, &out[i])
	}
	return out, nil
}

func (c *call) compare(n int, change *connector.Change) {
	e, file := &c.edits[n], c.files[n]
	switch {
	case e.blob == nil && file != nil:
		change.Kind = connector.ChangeKindDelete
	case e.blob == nil || !c.differs(n) && file != nil:
	case file == nil:
		change.Kind = connector.ChangeKindCreate
	default:
		change.Kind = connector.ChangeKindUpdate
		before, ok := c.contents[file.Hash]
		if !ok {
			change.Message = "the fields are not known: Options.MaxFetchBytes does not allow to fetch the file"
			return
		}
		change.SetFields(fieldsOf(before.raw, change.Object), fieldsOf(content(e.blob), change.Object))
		if len(change.Fields)+change.FieldsOmitted == 0 {
			change.Message = "only the text of the file changes"
		}
	}
}

// differs reports whether a file differs from an edit.
func (c *call) differs(n int) bool {
	e, file := &c.edits[n], c.files[n]
	return e.blob != nil && file != nil && (file.Mode != filemode.Regular || file.Hash != e.blob.Hash())
}

// read fetches the files that differ, for all calls together.
func (r *repository) read(ctx context.Context, calls []*call) error {
	wanted := map[plumbing.Hash]bool{}
	var hashes []plumbing.Hash
	for _, c := range calls {
		for i := range c.files {
			if c.differs(i) && !wanted[c.files[i].Hash] {
				wanted[c.files[i].Hash] = true
				hashes = append(hashes, c.files[i].Hash)
			}
		}
	}
	if len(hashes) == 0 {
		return nil
	}
	got, err := r.fetchFiles(ctx, hashes)
	if errors.Is(err, errTooLarge) {
		return nil // then the fields are not known
	}
	if err != nil {
		return err
	}
	maps.DeleteFunc(got, func(h plumbing.Hash, _ packed) bool { return !wanted[h] })
	if len(got) < len(hashes) {
		return errMissing // the branch has moved
	}
	for _, c := range calls {
		c.contents = got
	}
	return nil
}

func (r *repository) fetchFiles(ctx context.Context, hashes []plumbing.Hash) (map[plumbing.Hash]packed, error) {
	s, err := r.remote.open(ctx, uploadPack)
	if err != nil {
		return nil, err
	}
	defer s.close()
	refs, err := s.refs(ctx)
	if err != nil {
		return nil, err
	}
	request := filesRequest(refs, r.remote.tip(refs), hashes)
	answer, err := s.fetch(ctx, request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Close() }()
	return readPack(demux(request.Capabilities, answer), r.options.MaxFetchBytes, true)
}

// fieldsOf decodes a manifest. It returns nil for a manifest of another object.
func fieldsOf(manifest []byte, o appcontext.Object) (fields map[string]any) {
	if found, err := appcontext.ParseObject(manifest); err != nil || found != o {
		return nil
	}
	text, err := yamldoc.JSON(manifest)
	if err != nil || json.Unmarshal(text, &fields) != nil {
		return nil
	}
	return fields
}
