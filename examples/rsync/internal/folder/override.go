// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/appcontext/override"
)

// Override changes one object on some clusters with a JSON patch.
type Override struct {
	field    string // in its file
	object   appcontext.Object
	clusters []appcontext.ClusterID
	patch    []byte
}

// overrides is the file format of a list of overrides: clusters are provider+name.
type overrides struct {
	Overrides []struct {
		Target   appcontext.Object `json:"target"`
		Clusters []string          `json:"clusters"`
		Patch    json.RawMessage   `json:"patch"`
	} `json:"overrides"`
}

// Overrides reads a list of overrides from YAML or JSON. Read applies them.
func Overrides(text []byte) ([]Override, error) {
	object, err := yamldoc.StrictJSON(text)
	if err != nil {
		return nil, err
	}
	var file overrides
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, err
	}
	if len(file.Overrides) == 0 {
		return nil, errors.New("overrides: must have an override")
	}
	out := make([]Override, len(file.Overrides))
	for i, f := range file.Overrides {
		o := Override{field: fmt.Sprintf("overrides[%d]", i), object: f.Target, patch: f.Patch}
		if len(f.Clusters) == 0 {
			return nil, fmt.Errorf("%s.clusters: must name a cluster: change the manifest for all", o.field)
		}
		for j, c := range f.Clusters {
			provider, name, ok := strings.Cut(c, "+")
			if !ok {
				return nil, fmt.Errorf("%s.clusters[%d]: %q is not provider+name", o.field, j, c)
			}
			o.clusters = append(o.clusters, appcontext.ClusterID{Provider: provider, Name: name})
		}
		out[i] = o
	}
	return out, nil
}

// add adds an override to the app of its object.
func (o Override) add(b *appcontext.Builder, owners map[appcontext.Object]string, on []appcontext.ClusterID) error {
	bad := func(field, format string, args ...any) error {
		return &appcontext.Problem{
			Fault: appcontext.FaultBadOverride, Where: o.field + "." + field, What: fmt.Sprintf(format, args...),
		}
	}
	app, ok := owners[o.object]
	if !ok {
		return bad("target", "no manifest has %s: group, kind, namespace and name must be its own", o.object)
	}
	patch := override.JSONPatch(o.patch)
	for i, c := range o.clusters {
		if !slices.Contains(on, c) {
			return bad(fmt.Sprintf("clusters[%d]", i), "%s is not a cluster of the context", c)
		}
		b.App(app).Override(c.Provider, c.Name, o.object, func(manifest []byte) ([]byte, error) {
			out, err := patch(manifest)
			if err != nil {
				return nil, fmt.Errorf("%s.patch: %w", o.field, err)
			}
			return out, nil
		})
	}
	return nil
}
