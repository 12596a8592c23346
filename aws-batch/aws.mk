# Images and AWS Batch; included by the Makefile at the root. AWS_REGION is the region.
DOCKER ?= docker
TERRAFORM ?= terraform -chdir=aws-batch/terraform
IMAGE_VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml | head -n 1)
ACCOUNT = $(shell aws sts get-caller-identity --query Account --output text)
REGISTRY = $(ACCOUNT).dkr.ecr.$(AWS_REGION).amazonaws.com
# SageMaker's folders are root's: its images run as root.
IMAGES = gpu cpu gpu-root cpu-root

.PHONY: aws-images push-images aws-batch-apply aws-batch-destroy

aws-images: $(IMAGES:%=aws-image-%)

aws-image-%:
	$(DOCKER) build --platform linux/amd64 -f containers/$(firstword $(subst -, ,$*)).Dockerfile \
		--build-arg VERSION=$(IMAGE_VERSION) $(if $(findstring root,$*),--build-arg RUN_AS=root) \
		-t llm-ocr:$(IMAGE_VERSION)-$* .

push-images: aws-region $(IMAGES:%=push-image-%)

push-image-%: aws-image-% aws-login
	$(DOCKER) tag llm-ocr:$(IMAGE_VERSION)-$* $(REGISTRY)/llm-ocr:$(IMAGE_VERSION)-$*
	$(DOCKER) push $(REGISTRY)/llm-ocr:$(IMAGE_VERSION)-$*

.PHONY: aws-region aws-login
aws-region:
	@test -n "$(AWS_REGION)" || { echo "set AWS_REGION, such as us-east-1" >&2; exit 2; }

aws-login: aws-region
	aws ecr get-login-password --region $(AWS_REGION) | \
		$(DOCKER) login --username AWS --password-stdin $(REGISTRY)

aws-batch-apply:
	$(TERRAFORM) init -input=false
	$(TERRAFORM) apply

aws-batch-destroy:
	$(TERRAFORM) destroy
