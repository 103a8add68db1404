// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package git

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

var errMissing = errors.New("a folder of the repository was not fetched")

// trees are the folders of a commit, and of some earlier commits, as git's tree objects.
type trees map[plumbing.Hash][]byte

// sweep drops all that is not reachable from a root.
func (t trees) sweep(root plumbing.Hash) trees {
	live := trees{}
	var visit func(h plumbing.Hash)
	visit = func(h plumbing.Hash) {
		raw, ok := t[h]
		if _, seen := live[h]; seen || !ok {
			return
		}
		live[h] = raw
		entries, err := decodeTree(raw)
		if err != nil {
			return // the next use returns the error
		}
		for i := range entries {
			if entries[i].Mode == filemode.Dir {
				visit(entries[i].Hash)
			}
		}
	}
	visit(root)
	return live
}

func decodeTree(raw []byte) ([]object.TreeEntry, error) {
	var t object.Tree
	err := t.Decode(memory(plumbing.TreeObject, raw))
	return t.Entries, err
}

// draft has the folders of a commit while they are changed. It loads only folders that are read.
type draft struct {
	trees trees
	root  *folder
}

type folder struct {
	entries []object.TreeEntry
	loaded  map[string]*folder
	dirty   bool
}

// newDraft returns a draft that begins with a commit's root. A zero hash is an empty root.
func newDraft(t trees, root plumbing.Hash) (*draft, error) {
	d := &draft{trees: t}
	var err error
	d.root, err = d.load(root)
	return d, err
}

func (d *draft) load(h plumbing.Hash) (*folder, error) {
	if h.IsZero() {
		return &folder{loaded: map[string]*folder{}}, nil
	}
	raw, ok := d.trees[h]
	if !ok {
		return nil, errMissing
	}
	entries, err := decodeTree(raw)
	if err != nil {
		return nil, fmt.Errorf("a folder of the repository cannot be read: %w", err)
	}
	return &folder{entries: entries, loaded: map[string]*folder{}}, nil
}

func (f *folder) find(name string) int {
	return slices.IndexFunc(f.entries, func(e object.TreeEntry) bool { return e.Name == name })
}

// child returns a folder in a folder, or nil if it does not exist.
func (d *draft) child(f *folder, name string) (*folder, error) {
	if c := f.loaded[name]; c != nil {
		return c, nil
	}
	i := f.find(name)
	if i < 0 || f.entries[i].Mode != filemode.Dir {
		return nil, nil //nolint:nilnil // no folder is an answer
	}
	c, err := d.load(f.entries[i].Hash)
	if err == nil {
		f.loaded[name] = c
	}
	return c, err
}

// file returns the file at a path, or nil if it does not exist.
func (d *draft) file(path []string) (*object.TreeEntry, error) {
	f := d.root
	for _, name := range path[:len(path)-1] {
		var err error
		if f, err = d.child(f, name); f == nil {
			return nil, err
		}
	}
	i := f.find(path[len(path)-1])
	if i < 0 || !isFile(f.entries[i].Mode) {
		return nil, nil //nolint:nilnil // no file is an answer
	}
	return &f.entries[i], nil
}

// isFile reports whether an agent may read an object from an entry, for example from a link.
func isFile(m filemode.FileMode) bool { return m != filemode.Dir && m != filemode.Submodule }

// put adds or replaces a file. It rejects a name that is taken, regardless of case.
func (d *draft) put(path []string, h plumbing.Hash) error {
	f := d.root
	for i, name := range path[:len(path)-1] {
		f.dirty = true
		next, err := d.child(f, name)
		if err != nil {
			return err
		}
		if next == nil {
			if err := f.free(path, i); err != nil {
				return err
			}
			f.insert(object.TreeEntry{Name: name, Mode: filemode.Dir})
			next = &folder{loaded: map[string]*folder{}}
			f.loaded[name] = next
		}
		f = next
	}
	f.dirty = true
	name := path[len(path)-1]
	if i := f.find(name); i >= 0 && isFile(f.entries[i].Mode) {
		f.entries[i].Mode, f.entries[i].Hash = filemode.Regular, h
		return nil
	}
	if err := f.free(path, len(path)-1); err != nil {
		return err
	}
	f.insert(object.TreeEntry{Name: name, Mode: filemode.Regular, Hash: h})
	return nil
}

// replace puts the file of an edit, and reports whether that changes anything.
func (d *draft) replace(e *edit) (bool, error) {
	file, err := d.file(e.path)
	if err != nil || file != nil && file.Mode == filemode.Regular && file.Hash == e.blob.Hash() {
		return false, err
	}
	return true, d.put(e.path, e.blob.Hash())
}

// free returns an error if the name at an index of the path is taken.
func (f *folder) free(path []string, i int) error {
	for j := range f.entries {
		if e := &f.entries[j]; strings.EqualFold(e.Name, path[i]) {
			return fmt.Errorf("%s conflicts with %s in the repository", strings.Join(append(path[:i:i], e.Name), "/"),
				strings.Join(path, "/"))
		}
	}
	return nil
}

// insert keeps git's order, in which a folder's name ends with a slash.
func (f *folder) insert(e object.TreeEntry) {
	key := func(e *object.TreeEntry) string {
		if e.Mode == filemode.Dir {
			return e.Name + "/"
		}
		return e.Name
	}
	i := sort.Search(len(f.entries), func(i int) bool { return key(&f.entries[i]) >= key(&e) })
	f.entries = slices.Insert(f.entries, i, e)
}

// remove deletes a file and empty folders, except the first keep folders of its path.
func (d *draft) remove(path []string, keep int) (bool, error) {
	if file, err := d.file(path); file == nil {
		return false, err
	}
	chain := []*folder{d.root}
	for _, name := range path[:len(path)-1] {
		chain = append(chain, chain[len(chain)-1].loaded[name])
	}
	for i := len(path) - 1; i >= 0; i-- {
		f := chain[i]
		f.dirty = true
		if i < len(path)-1 && (len(chain[i+1].entries) > 0 || i < keep) {
			continue
		}
		j := f.find(path[i])
		f.entries = slices.Delete(f.entries, j, j+1)
		delete(f.loaded, path[i])
	}
	return true, nil
}

// empty reports whether an existing folder is empty.
func (d *draft) empty(path []string) (bool, error) {
	f := d.root
	var err error
	for _, name := range path {
		if f, err = d.child(f, name); f == nil {
			return false, err
		}
	}
	return len(f.entries) == 0, nil
}

// write makes the objects of changed folders, and adds them to the trees.
func (d *draft) write() (plumbing.Hash, []plumbing.EncodedObject, error) {
	var made []plumbing.EncodedObject
	var visit func(f *folder) (plumbing.Hash, error)
	visit = func(f *folder) (plumbing.Hash, error) {
		for name, c := range f.loaded {
			if !c.dirty {
				continue
			}
			h, err := visit(c)
			if err != nil {
				return h, err
			}
			f.entries[f.find(name)].Hash = h
		}
		var o plumbing.MemoryObject
		if err := (&object.Tree{Entries: f.entries}).Encode(&o); err != nil {
			return plumbing.ZeroHash, err
		}
		f.dirty = false
		h := o.Hash()
		if _, ok := d.trees[h]; !ok {
			d.trees[h] = content(&o)
		}
		made = append(made, &o)
		return h, nil
	}
	h, err := visit(d.root)
	return h, made, err
}

// edit makes the changes of a call. It returns the changed objects, and the new files.
func (d *draft) edit(c *call) (changed []appcontext.Object, blobs []plumbing.EncodedObject, err error) {
	for i := range c.edits {
		e := &c.edits[i]
		var did bool
		if e.blob == nil {
			did, err = d.remove(e.path, len(c.folder))
		} else {
			did, err = d.replace(e)
		}
		if did && e.blob != nil {
			blobs = append(blobs, e.blob)
		}
		switch {
		case errors.Is(err, errMissing):
			return nil, nil, err
		case err != nil:
			return nil, nil, driver.Fault(connector.ErrTerminal, e.object, "%w", err)
		case did:
			changed = append(changed, e.object)
		}
	}
	if empty, err := d.empty(c.folder); err != nil || !empty {
		return changed, blobs, err
	}
	keep := memory(plumbing.BlobObject, nil)
	return changed, append(blobs, keep), d.put(append(c.folder[:len(c.folder):len(c.folder)], placeholder), keep.Hash())
}
