// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/spokewire/sdk-go/internal/kubefields"
	"github.com/spokewire/sdk-go/internal/yamldoc"
	"github.com/spokewire/sdk-go/rsync/appcontext"
	"github.com/spokewire/sdk-go/rsync/connector"
	"github.com/spokewire/sdk-go/rsync/connector/internal/driver"
)

// protected are namespaces that a cluster requires.
var protected = []string{"default", "kube-system", "kube-public", "kube-node-lease"}

func isProtected(o appcontext.Object) bool {
	return o.Group == "" && o.Kind == "Namespace" && slices.Contains(protected, o.Name)
}

type manifest struct {
	object appcontext.Object
	gvk    schema.GroupVersionKind
	json   []byte
	crd    *definition // of a CustomResourceDefinition
	force  bool        // it is replaced if immutable fields change
	owners []types.UID
}

// Apply applies the objects server-side, in steps, after it has decoded all manifests.
func (c *cluster) Apply(ctx context.Context, batch connector.Batch) error {
	manifests := make([]*manifest, 0, len(batch.Resources))
	for i := range batch.Resources {
		m, err := c.read(&batch.Resources[i])
		if err != nil {
			return err
		}
		manifests = append(manifests, m)
	}
	for _, step := range steps(batch.Resources, false) {
		if err := c.parallel(step, func(i int) error {
			m := manifests[i]
			err := c.apply(ctx, &batch, m)
			if err == nil && m.crd != nil {
				err = c.established(ctx, m)
			}
			if err == nil {
				batch.Done(i)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// read decodes a manifest, and checks it without a request to the cluster.
func (c *cluster) read(r *appcontext.Resource) (*manifest, error) {
	refuse := func(format string, args ...any) (*manifest, error) {
		return nil, driver.Fault(connector.ErrTerminal, r.Object, format, args...)
	}
	if limit := c.options.MaxObjectBytes; len(r.Manifest) > limit {
		return refuse("the manifest has %d bytes and Options.MaxObjectBytes allows %d", len(r.Manifest), limit)
	}
	object, err := appcontext.ParseObject(r.Manifest)
	switch {
	case err != nil:
		return refuse("%w", err)
	case object != r.Object:
		return refuse("the manifest has another object")
	case !validNames(object):
		return refuse("%w", errName)
	case isProtected(object):
		return refuse("the namespace is protected: an app context cannot own it, because it could not be deleted")
	}
	content, err := contentOf(r.Manifest)
	if err != nil {
		return refuse("the manifest is neither YAML nor JSON") // the parser's error quotes the manifest
	}
	u := unstructured.Unstructured{Object: content}
	// Manifests from a server have these fields, which would be preconditions or errors.
	for _, field := range serverFields {
		unstructured.RemoveNestedField(content, "metadata", field)
	}
	m := &manifest{object: object, gvk: u.GroupVersionKind(),
		force: strings.EqualFold(u.GetAnnotations()[forceAnnotation], forceEnabled)}
	for _, owner := range u.GetOwnerReferences() {
		m.owners = append(m.owners, owner.UID)
	}
	if m.gvk.Version == "" || u.GetGenerateName() != "" {
		return refuse("the manifest's apiVersion cannot be read, or it has metadata.generateName")
	}
	if isDefinition(object) {
		if m.crd, err = readDefinition(content); err != nil {
			return refuse("%w", err)
		}
	}
	if m.json, err = u.MarshalJSON(); err != nil {
		return refuse("the manifest cannot be written as JSON")
	}
	return m, nil
}

// contentOf decodes a manifest. Whole numbers stay exact, even if a float64 cannot represent them.
func contentOf(manifest []byte) (map[string]any, error) {
	text, err := yamldoc.JSON(manifest)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	err = utiljson.Unmarshal(text, &content)
	return content, err
}

// apply applies one object, and replaces it if necessary and allowed.
func (c *cluster) apply(ctx context.Context, batch *connector.Batch, m *manifest) error {
	_, refused := c.patch(ctx, m, false)
	if refused == nil {
		return nil
	}
	if refused.fields() == nil {
		return refused.err
	}
	deleted, err := c.replace(ctx, batch.Holder, m, refused)
	if err != nil {
		return err
	}
	switch _, refused := c.patch(ctx, m, false); {
	case refused == nil:
		return nil
	case deleted && refused.fields() != nil:
		return driver.Fault(connector.ErrRetryable, m.object, "apply: %w", errLeaving) // the old object still exists
	default:
		return refused.err
	}
}

// refusal is the reason why the cluster rejected an object.
type refusal struct {
	err    error // classified
	answer error // as client-go returned it; nil if there was no request
}

// fields returns the rejected fields: see [kubefields.Refused].
func (r *refusal) fields() []string { return kubefields.Refused(r.answer) }

// patch applies one object. With dry it sends a dry run, and returns the object that would result.
func (c *cluster) patch(ctx context.Context, m *manifest, dry bool) (body []byte, refused *refusal) {
	o := m.object
	doing := "apply"
	if dry {
		doing = "try to apply"
	} else {
		c.interest.want(m.gvk, o, present)
	}
	var answer error
	err := c.call(ctx, o, doing, func(ctx context.Context, cl *client) error {
		answer = retryFresh(func(fresh bool) error {
			k, err := c.kinds.find(ctx, cl, m.gvk, fresh)
			if err == nil {
				err = k.check(o)
			}
			if err != nil {
				return err
			}
			request := cl.rest.Patch(types.ApplyPatchType).AbsPath(k.path(o.Namespace, o.Name)...).MaxRetries(0).
				Param("fieldManager", c.options.FieldManager).Body(m.json)
			if c.options.Force {
				request = request.Param("force", "true")
			}
			if dry {
				request = request.Param("dryRun", metav1.DryRunAll)
			} else {
				request = request.SetHeader("Accept", metadataOnly)
			}
			body, err = raw(request.Do(ctx))
			if err == nil && !dry && isLeaving(body) {
				return errLeaving
			}
			return err
		})
		return answer
	})
	if err != nil {
		return nil, &refusal{err, answer}
	}
	return body, nil
}

const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

// isLeaving reports whether an answer is an object that is being deleted.
func isLeaving(body []byte) bool {
	var object struct {
		Metadata struct {
			DeletionTimestamp string `json:"deletionTimestamp"`
		} `json:"metadata"`
	}
	return json.Unmarshal(body, &object) == nil && object.Metadata.DeletionTimestamp != ""
}

// retryFresh repeats a call with new discovery if the cached path of its kind is no longer served.
func retryFresh(do func(fresh bool) error) error {
	err := do(false)
	if pathGone(err) {
		return do(true)
	}
	return err
}

var (
	errNoNamespace = errors.New("the manifest has no metadata.namespace: objects of this kind need one")
	errName        = errors.New("the object's name or namespace is invalid")
	errNotApplied  = errors.New("objects of this kind do not support patch")
	errNamespace   = errors.New("the manifest has a metadata.namespace: objects of this kind are cluster-scoped")
)

// check returns an error if an object of the kind cannot have been applied.
func (k kind) check(o appcontext.Object) error {
	switch {
	case !k.patched:
		return errNotApplied
	case !validNames(o):
		return errName
	case k.namespaced && o.Namespace == "":
		return errNoNamespace
	case !k.namespaced && o.Namespace != "":
		return errNamespace
	}
	return nil
}

func validNames(o appcontext.Object) bool {
	return len(content.IsPathSegmentName(o.Name)) == 0 &&
		(o.Namespace == "" || len(content.IsDNS1123Label(o.Namespace)) == 0)
}

// absent reports whether an error means that an object cannot exist.
func absent(err error) bool {
	return errors.Is(err, errNotServed) || errors.Is(err, errName) || errors.Is(err, errNoNamespace) ||
		errors.Is(err, errNamespace) || errors.Is(err, errNotApplied)
}
